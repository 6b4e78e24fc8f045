//! `include/motet.h` says what the library has: every function with its types, the options' layout, and every number.
//!
//! Names would agree also where an argument were missing. So a C file is made of what `src/exports.rs` says, in which each function of the
//! header is assigned to a pointer of the type that it should have, and a C compiler is asked.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests may fail, and say so"
)]

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use motet_capi::Status;
use motet_exec::{Element, Reduction};

fn read(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

/// An argument's or a field's type in C. Numbers that C has an enumeration for are told by their names.
fn in_c(name: &str, rust: &str) -> String {
    if let Some(target) = rust.strip_prefix("*mut ").or_else(|| rust.strip_prefix("*const ")) {
        return format!("{} *", in_c("", target));
    }
    let found = match (name, rust) {
        ("kind", "i32") => "motet_type",
        ("how", "i32") => "motet_reduction",
        (_, "i32") => "int32_t",
        (_, "u32") => "uint32_t",
        (_, "u64") => "uint64_t",
        (_, "usize") => "size_t",
        (_, "c_char") => "char",
        (_, "c_void") => "void",
        (_, "COptions") => "motet_options",
        (_, "Comm") => "motet_comm",
        (_, "Request") => "motet_request",
        (_, "Store") => "motet_store",
        (_, "Status") => "motet_status",
        _ => panic!("what is {name}: {rust} in C? say so here"),
    };
    found.to_owned()
}

/// `a: T, b: U` as pairs.
fn pairs(text: &str) -> Vec<(&str, &str)> {
    let all = text.split(',').map(str::trim).filter(|it| !it.is_empty());
    all.map(|it| it.split_once(": ").unwrap()).collect()
}

/// Every function: its name, and the type of a pointer to it, whose name is to be put in the place of `@`.
fn functions(exports: &str) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for text in exports.split("extern \"C\" fn ").skip(1) {
        let (name, rest) = text.split_once('(').unwrap();
        let (arguments, rest) = rest.split_once(')').unwrap();
        let (result, _) = rest.split_once('{').unwrap();
        let result = result.trim().strip_prefix("-> ").map_or("void".to_owned(), |it| in_c("", it));
        let arguments: Vec<String> =
            pairs(arguments).into_iter().map(|(name, rust)| in_c(name, rust)).collect();
        let arguments = if arguments.is_empty() { "void".to_owned() } else { arguments.join(", ") };
        all.push((name.to_owned(), format!("{result} (*@)({arguments})")));
    }
    all
}

/// The C file that compiles only if the header is right. What is `const` is a promise and no difference to a call, so it is left out on both
/// sides.
fn check(exports: &str) -> String {
    let mut c = "#include <stddef.h>\n#include <stdint.h>\n#define const\n#include \"motet.h\"\n"
        .to_owned();
    for (number, (name, kind)) in functions(exports).into_iter().enumerate() {
        let pointer = kind.replace('@', &format!("function_{number}"));
        let _ = writeln!(c, "{pointer} = {name};");
    }
    let (_, fields) = exports.split_once("pub struct COptions {").unwrap();
    let fields = pairs(fields.split_once('}').unwrap().0);
    let of = |(name, rust): &(&str, &str)| format!("  {} {name};\n", in_c(name, rust));
    let declared: String = fields.iter().map(of).collect();
    let _ = writeln!(c, "struct ours {{\n{declared}}};");
    let same = |c: &mut String, one: &str, other: &str| {
        let _ = writeln!(c, "_Static_assert({one} == {other}, \"{one} is not {other}\");");
    };
    same(&mut c, "sizeof(motet_options)", "sizeof(struct ours)");
    for (name, rust) in &fields {
        let at = |kind: &str| format!("offsetof({kind}, {name})");
        same(&mut c, &at("motet_options"), &at("struct ours"));
        let _ = writeln!(c, "{} *field_{name} = &((motet_options *)0)->{name};", in_c(name, rust));
    }
    for (number, it) in Element::ALL.into_iter().enumerate() {
        same(&mut c, &format!("MOTET_{}", it.name().to_uppercase()), &number.to_string());
    }
    for (number, it) in Reduction::ALL.into_iter().enumerate() {
        same(&mut c, &format!("MOTET_{}", it.name().to_uppercase()), &number.to_string());
    }
    let statuses = [
        ("OK", Status::Ok),
        ("INVALID", Status::Invalid),
        ("CLUSTER", Status::Cluster),
        ("LOST", Status::Lost),
        ("FAILED", Status::Failed),
        ("FAULT", Status::Fault),
    ];
    for (name, status) in statuses {
        same(&mut c, &format!("MOTET_{name}"), &(status as i32).to_string());
    }
    for name in ["motet_type", "motet_reduction", "motet_status"] {
        same(&mut c, &format!("sizeof({name})"), "4");
    }
    c
}

/// What a C compiler says against the check with this header; nothing if all is well.
fn complaints(header: &str) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("motet.h"), header).unwrap();
    let file = folder.path().join("check.c");
    std::fs::write(&file, check(&read("src/exports.rs"))).unwrap();
    let mut compiler = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".to_owned()));
    compiler.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-c", "-o"]);
    compiler.arg(folder.path().join("check.o")).arg(&file);
    let output = compiler.output().expect("a C compiler");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (!output.status.success()).then_some(said)
}

#[test]
fn the_header_says_what_the_library_has() {
    assert!(functions(&read("src/exports.rs")).len() > 20);
    let complaints = complaints(&read("include/motet.h"));
    assert!(complaints.is_none(), "{}", complaints.unwrap());
}

#[test]
fn what_differs_is_found() {
    let header = read("include/motet.h");
    let changes = [
        (
            "size_t part_count, motet_type type, motet_request",
            "uint32_t part_count, motet_type type, motet_request",
        ),
        ("uint32_t to, uint32_t tag, ", "uint32_t to, "),
        (
            "motet_type type, motet_reduction reduction, uint32_t root",
            "motet_reduction reduction, motet_type type, uint32_t root",
        ),
        ("uint64_t grace_ms", "uint32_t grace_ms"),
        ("  uint64_t cache_bytes;", "  uint32_t cache_bytes;"),
        ("  int32_t checksums; ", "  float checksums; "),
        ("MOTET_BF16 = 1", "MOTET_BF16 = 10"),
        ("MOTET_LOST = 3", "MOTET_LOST = 6"),
        ("MOTET_AVERAGE = 4", "MOTET_AVERAGE = 5"),
    ];
    for (from, to) in changes {
        let changed = header.replacen(from, to, 1);
        assert_ne!(changed, header, "`{from}` is not in the header");
        assert!(complaints(&changed).is_some(), "`{to}` is not found");
    }
}

/// A function that the library does not have would compile and not link.
#[test]
fn the_header_has_no_other_functions() {
    let header = read("include/motet.h");
    let mut declared = Vec::new();
    for line in header.lines().filter(|it| !it.starts_with([' ', '/', '#'])) {
        let Some((head, _)) = line.split_once('(') else { continue };
        let name = head.rsplit([' ', '*']).next().unwrap_or("");
        if name.starts_with("motet_") {
            declared.push(name.to_owned());
        }
    }
    declared.sort();
    let mut ours: Vec<String> =
        functions(&read("src/exports.rs")).into_iter().map(|it| it.0).collect();
    ours.sort();
    assert_eq!(ours, declared);
}
