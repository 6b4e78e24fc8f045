//! MSCCL XML files with something wrong: each fault is found and named, and hides no other.

use motet_collective::formats::msccl_xml;
use motet_collective::{Finding, Report, Severity};

/// Two ranks that gather, each from the other; every fault below is a change or two to it.
const RIGHT: &str = r#"<algo name="t" proto="Simple" nchannels="1" nchunksperloop="4" ngpus="2" coll="allgather" inplace="0" outofplace="1" minBytes="0" maxBytes="0">
  <gpu id="0" i_chunks="2" o_chunks="4" s_chunks="0">
    <tb id="0" send="1" recv="-1" chan="0">
      <step s="0" type="s" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" cnt="2" depid="-1" deps="-1" hasdep="0"/>
    </tb>
    <tb id="1" send="-1" recv="1" chan="0">
      <step s="0" type="r" srcbuf="i" srcoff="0" dstbuf="o" dstoff="2" cnt="2" depid="-1" deps="-1" hasdep="1"/>
    </tb>
    <tb id="2" send="-1" recv="-1" chan="0">
      <step s="0" type="cpy" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" cnt="2" depid="1" deps="0" hasdep="0"/>
    </tb>
  </gpu>
  <gpu id="1" i_chunks="2" o_chunks="4" s_chunks="0">
    <tb id="0" send="0" recv="0" chan="0">
      <step s="0" type="s" srcbuf="i" srcoff="0" dstbuf="o" dstoff="2" cnt="2" depid="-1" deps="-1" hasdep="0"/>
      <step s="1" type="r" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" cnt="2" depid="-1" deps="-1" hasdep="0"/>
    </tb>
    <tb id="1" send="-1" recv="-1" chan="0">
      <step s="0" type="cpy" srcbuf="i" srcoff="0" dstbuf="o" dstoff="2" cnt="2" depid="-1" deps="-1" hasdep="0"/>
    </tb>
  </gpu>
</algo>
"#;

type Change<'a> = (usize, &'a str, &'a str);

/// [`RIGHT`] with, for each change, the first `from` in its line (from 1) made `to`.
fn changed(changes: &[Change<'_>]) -> String {
    let mut lines: Vec<String> = RIGHT.lines().map(str::to_owned).collect();
    for (line, from, to) in changes {
        let text = &mut lines[line - 1];
        assert!(text.contains(from), "line {line} has no {from}");
        *text = text.replacen(from, to, 1);
    }
    lines.join("\n")
}

fn check(text: &str) -> Report {
    msccl_xml::read(text).unwrap().check(None)
}

/// The changes give a finding of this kind at this severity whose text has `part`.
fn finds(changes: &[Change<'_>], severity: Severity, finding: Finding, part: &str) {
    let report = check(&changed(changes));
    let hit = report.diagnostics().iter().any(|it| {
        it.severity == severity && it.finding == finding && it.to_string().contains(part)
    });
    assert!(hit, "{changes:?}: no {finding:?} with `{part}` in\n{report}");
    assert_eq!(report.is_right(), severity == Severity::Warning, "{changes:?}:\n{report}");
}

fn error(line: usize, from: &str, to: &str, finding: Finding, part: &str) {
    finds(&[(line, from, to)], Severity::Error, finding, part);
}

fn warning(line: usize, from: &str, to: &str, finding: Finding, part: &str) {
    finds(&[(line, from, to)], Severity::Warning, finding, part);
}

#[test]
fn the_unchanged_file_is_right() {
    assert_eq!(check(RIGHT).to_string(), "");
}

#[test]
fn faults_of_connections() {
    use Finding::{BadLane, Mismatch, OutOfRange, UnmatchedReceive, UnmatchedSend};
    // Only with the place in the file can a fault be mended.
    let place = "at gpu 0, threadblock 0, step 0 (line 4)";
    error(4, "type=\"s\"", "type=\"cpy\"", UnmatchedReceive, "gpu 0 sends only 0 times to gpu 1");
    error(16, "type=\"r\"", "type=\"cpy\"", UnmatchedSend, place);
    error(3, "send=\"1\"", "send=\"-1\"", UnmatchedSend, "no send peer");
    error(6, "recv=\"1\"", "recv=\"-1\"", UnmatchedReceive, "no recv peer");
    error(
        4,
        "cnt=\"2\"",
        "cnt=\"1\"",
        Mismatch,
        "sends 1 chunks, but gpu 1, threadblock 0, step 1",
    );
    error(3, "send=\"1\"", "send=\"0\"", BadLane, "is the gpu itself");
    error(3, "send=\"1\"", "send=\"7\"", BadLane, "is no rank");
    error(3, "send=\"1\"", "send=\"-2\"", BadLane, "is no rank");
    error(3, "recv=\"-1\"", "recv=\"1\"", BadLane, "threadblocks 0 and 1 both receive");
    error(3, "chan=\"0\"", "chan=\"1\"", OutOfRange, "outside the 1 channels");
    error(6, "id=\"1\"", "id=\"3\"", BadLane, "without gaps");
    let unused = [
        (1, "nchannels=\"1\"", "nchannels=\"2\""),
        (18, "chan=\"0\"", "chan=\"1\""),
        (18, "send=\"-1\"", "send=\"0\""),
    ];
    finds(&unused, Severity::Warning, Mismatch, "names it back");
}

#[test]
fn faults_of_gpus() {
    use Finding::{Limit, Mismatch, OutOfRange};
    error(1, "ngpus=\"2\"", "ngpus=\"4\"", Mismatch, "ngpus is 4, but there are 2");
    error(13, "id=\"1\"", "id=\"0\"", OutOfRange, "gpu 0 is there twice (line 13)");
    error(13, "id=\"1\"", "id=\"5\"", OutOfRange, "gpu 5 is no rank");
    warning(2, "i_chunks=\"2\"", "i_chunks=\"3\"", Mismatch, "allgather has 2 chunks there");
    error(2, "i_chunks=\"2\"", "i_chunks=\"0\"", OutOfRange, "src is i[0] for 2 chunks");
    error(2, "s_chunks=\"0\"", "s_chunks=\"-1\"", OutOfRange, "negative s_chunks");
    error(4, "srcoff=\"0\"", "srcoff=\"1\"", OutOfRange, "reads chunks 1 to 2 of the input");
    error(
        7,
        "dstoff=\"2\"",
        "dstoff=\"3\"",
        OutOfRange,
        "at gpu 1, threadblock 0, step 0 (line 15)",
    );
    error(4, "srcoff=\"0\"", "srcoff=\"-1\"", OutOfRange, "src is i[-1]");
    error(4, "srcbuf=\"i\"", "srcbuf=\"s\"", OutOfRange, "src is s[0] for 2 chunks");
    error(10, "cnt=\"2\"", "cnt=\"-2\"", OutOfRange, "moves no chunk");
    warning(1, "minBytes=\"0\" ", "", Limit, "has no minBytes: the Azure executor refuses");
    warning(1, "outofplace=\"1\" ", "", Limit, "has no outofplace");
    warning(1, "coll=\"allgather\"", "coll=\"all_gather\"", Limit, "write \"allgather\"");
    warning(3, "<tb", "<copy i_off=\"0\" o_off=\"0\"/><tb", Limit, "pass over <copy>");
    error(1, "minBytes=\"0\"", "minBytes=\"-1\"", OutOfRange, "must not be negative");
}

#[test]
fn faults_of_waits() {
    use Finding::{BadWait, Deadlock, Mismatch};
    error(10, "depid=\"1\"", "depid=\"8\"", BadWait, "threadblock 8, which does not exist");
    error(10, "deps=\"0\"", "deps=\"3\"", BadWait, "step 3 of threadblock 1, which does not exist");
    error(10, "deps=\"0\"", "deps=\"-1\"", BadWait, "step -1 of threadblock 1");
    error(
        7,
        "hasdep=\"1\"",
        "hasdep=\"0\"",
        BadWait,
        "publishes nothing, nor does any step after it",
    );
    error(7, "hasdep=\"1\"", "hasdep=\"2\"", Finding::OutOfRange, "neither 0 nor 1");
    warning(7, "s=\"0\"", "s=\"5\"", Mismatch, "number 0 of its threadblock");
    let own = [(10, "depid=\"1\"", "depid=\"2\""), (10, "hasdep=\"0\"", "hasdep=\"1\"")];
    finds(&own, Severity::Error, Deadlock, "wait for one another");
    let nop = |depid: i32, deps: i32, hasdep: u8| {
        format!(
            "<step s=\"0\" type=\"nop\" srcbuf=\"i\" srcoff=\"-1\" dstbuf=\"o\" dstoff=\"-1\" \
             cnt=\"0\" depid=\"{depid}\" deps=\"{deps}\" hasdep=\"{hasdep}\"/>"
        )
    };
    // A nop's wait belongs to the step after it, which must have one too.
    let before_cpy = format!("{}<step s=\"1\"", nop(1, 0, 0));
    let [nop_first, no_wait] = [
        (10, "<step s=\"0\"", before_cpy.as_str()),
        (10, "depid=\"1\" deps=\"0\" h", "depid=\"-1\" deps=\"-1\" h"),
    ];
    finds(&[no_wait, nop_first], Severity::Error, BadWait, "waits for nothing itself");
    assert_eq!(check(&changed(&[nop_first])).to_string(), "");
    // One that waits for nothing is not counted; one at the end is passed over.
    let before_r = format!("{}<step s=\"1\"", nop(-1, -1, 0));
    warning(7, "<step s=\"0\"", &before_r, BadWait, "not counted by the runtime");
    let with_flag = format!("{}<step s=\"1\"", nop(1, 0, 1));
    warning(10, "<step s=\"0\"", &with_flag, BadWait, "a nop publishes nothing");
    let at_end = format!("hasdep=\"0\"/>{}", nop(0, 0, 0).replace("s=\"0\" type", "s=\"1\" type"));
    warning(10, "hasdep=\"0\"/>", &at_end, BadWait, "no step follows them");
}

#[test]
fn a_wait_ends_with_a_later_flag() {
    // Step 0 publishes nothing, so the wait lasts until step 1 has been done.
    let two = "cnt=\"1\" depid=\"-1\" deps=\"-1\" hasdep=\"0\"/>\n<step s=\"1\" type=\"r\" \
               srcbuf=\"i\" srcoff=\"1\" dstbuf=\"o\" dstoff=\"3\" cnt=\"1\" depid=\"-1\" \
               deps=\"-1\" hasdep=\"1\"/>";
    let sends = "cnt=\"1\" depid=\"-1\" deps=\"-1\" hasdep=\"0\"/><step s=\"1\" type=\"s\" \
                 srcbuf=\"i\" srcoff=\"1\" dstbuf=\"o\" dstoff=\"3\" cnt=\"1\" depid=\"-1\" \
                 deps=\"-1\" hasdep=\"0\"/>";
    let from = "cnt=\"2\" depid=\"-1\" deps=\"-1\" hasdep=\"1\"/>";
    let changes = [
        (7, from, two),
        (15, "cnt=\"2\" depid=\"-1\" deps=\"-1\" hasdep=\"0\"/>", sends),
        (16, "s=\"1\"", "s=\"2\""),
    ];
    finds(&changes, Severity::Warning, Finding::BadWait, "step 1 ends the wait");
    let program = msccl_xml::read(&changed(&changes)).unwrap().program;
    let last = program.lanes()[1].events[1];
    let copy = program.lanes()[2].events[0];
    assert_eq!(program.deps(copy), [last]);
}

#[test]
fn faults_of_fused_reductions() {
    let reduce = |s: usize, cnt: u32| {
        format!(
            "<step s=\"{s}\" type=\"re\" srcbuf=\"i\" srcoff=\"0\" dstbuf=\"o\" dstoff=\"0\" \
             cnt=\"{cnt}\" depid=\"-1\" deps=\"-1\" hasdep=\"0\"/>"
        )
    };
    let file = |steps: Vec<String>| {
        let end = format!("hasdep=\"0\"/>{}", steps.concat());
        check(&changed(&[(10, "hasdep=\"0\"/>", &end)])).to_string()
    };
    let text = file(vec![reduce(1, 2), reduce(2, 1)]);
    assert!(text.contains("error[mismatch]: the runtime fuses this re"), "{text}");
    let text = file((1..18).map(|it| reduce(it, 2)).collect());
    assert!(!text.contains("error[limit]"), "{text}");
    // The runtime's own limit works for the first sixteen of a threadblock only.
    let text = file((1..34).map(|it| reduce(it, 2)).collect());
    assert!(text.contains("error[limit]") && text.contains("16 in a row"), "{text}");
}

#[test]
fn a_local_copy_must_not_overlap_itself() {
    let change = [(10, "srcbuf=\"i\" srcoff=\"0\"", "srcbuf=\"o\" srcoff=\"1\"")];
    finds(&change, Severity::Error, Finding::Race, "overlap");
}

#[test]
fn faults_of_data_are_found_with_their_place() {
    // The verifier's findings, seen through the file.
    error(10, "dstoff=\"0\"", "dstoff=\"2\"", Finding::MissingData, "nothing arrives from rank 0");
    error(4, "srcbuf=\"i\"", "srcbuf=\"o\"", Finding::ReadsUndefined, "(line 4)");
}

#[test]
fn all_faults_are_found_at_once() {
    let changes = [
        (4, "srcoff=\"0\"", "srcoff=\"1\""),
        (10, "depid=\"1\"", "depid=\"8\""),
        (3, "send=\"1\"", "send=\"1\" x=\"1\""),
        (16, "cnt=\"2\"", "cnt=\"1\""),
    ];
    let report = check(&changed(&changes));
    for finding in [Finding::BadWait, Finding::Mismatch, Finding::MissingData] {
        assert!(report.has(finding), "no {finding:?} in\n{report}");
    }
}

#[test]
fn what_is_no_msccl_xml_is_refused_with_its_line() {
    let refuses = |text: &str, line: Option<usize>, part: &str| {
        let error = msccl_xml::read(text).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
        assert_eq!(error.at.map(|it| it.line), line, "{error}");
    };
    refuses("", None, "no XML element");
    refuses("<system/>", Some(1), "outermost element is <system>");
    refuses("<algo", Some(1), "broken");
    refuses(&RIGHT.replace("</algo>", ""), Some(1), "never closed");
    refuses(&format!("{RIGHT}<algo/>"), Some(23), "second root");
    refuses(&"<algo>".repeat(80), Some(1), "nested deeper");
    let change = |line, from, to| changed(&[(line, from, to)]);
    refuses(&change(4, "type=\"s\"", "type=\"put\""), Some(4), "unknown step type `put`");
    refuses(&change(4, "srcbuf=\"i\"", "srcbuf=\"x\""), Some(4), "is no buffer");
    refuses(&change(4, "cnt=\"2\"", "cnt=\"two\""), Some(4), "is no number");
    refuses(&change(4, "cnt=\"2\"", ""), Some(4), "<step> has no attribute `cnt`");
    refuses(&change(3, "chan=\"0\"", ""), Some(3), "<tb> has no attribute `chan`");
    refuses(&change(2, "s_chunks=\"0\"", ""), Some(2), "<gpu> has no attribute");
    refuses(&change(1, "proto=\"Simple\"", ""), Some(1), "<algo> has no attribute `proto`");
    refuses(&change(1, "proto=\"Simple\"", "proto=\"LL64\""), Some(1), "unknown protocol");
    refuses(&change(1, "coll=\"allgather\"", "coll=\"custom\""), Some(1), "custom");
    refuses(&change(1, "coll=\"allgather\"", "coll=\"alltoallv\""), Some(1), "alltoallv");
    refuses(&change(1, "nchunksperloop=\"4\"", "nchunksperloop=\"5\""), Some(1), "no multiple");
    refuses(&change(1, "nchunksperloop=\"4\"", "nchunksperloop=\"99999999\""), Some(1), "outside");
    refuses(&change(1, "ngpus=\"2\"", "ngpus=\"1000000\""), Some(1), "2 <gpu>s");
    refuses(&change(1, "ngpus=\"2\"", "ngpus=\"-2\""), Some(1), "ngpus");
    refuses(&change(2, "s_chunks=\"0\"", "s_chunks=\"4000000000\""), Some(2), "s_chunks");
    refuses(&change(4, "cnt=\"2\"", "cnt=\"4000000000\""), Some(4), "cnt");
    let wide: String = (0..70).map(|it| format!(" a{it}=\"\"")).collect();
    refuses(&format!("<algo{wide}/>"), Some(1), "more than 64 attributes");
}

#[test]
fn roots_are_found_or_read() {
    let file = |root: &str| {
        format!(
            "<algo name=\"b\" proto=\"LL\" nchannels=\"1\" nchunksperloop=\"1\" ngpus=\"2\" \
             coll=\"broadcast\" inplace=\"1\" outofplace=\"0\" minBytes=\"0\" maxBytes=\"0\"{root}>\
             <gpu id=\"0\" i_chunks=\"1\" o_chunks=\"0\" s_chunks=\"0\"><tb id=\"0\" send=\"-1\" \
             recv=\"1\" chan=\"0\"><step s=\"0\" type=\"r\" srcbuf=\"i\" srcoff=\"0\" dstbuf=\"i\" \
             dstoff=\"0\" cnt=\"1\" depid=\"-1\" deps=\"-1\" hasdep=\"0\"/></tb></gpu>\
             <gpu id=\"1\" i_chunks=\"1\" o_chunks=\"0\" s_chunks=\"0\"><tb id=\"0\" send=\"0\" \
             recv=\"-1\" chan=\"0\"><step s=\"0\" type=\"s\" srcbuf=\"i\" srcoff=\"0\" dstbuf=\"i\" \
             dstoff=\"0\" cnt=\"1\" depid=\"-1\" deps=\"-1\" hasdep=\"0\"/></tb></gpu></algo>"
        )
    };
    let found = msccl_xml::read(&file("")).unwrap();
    assert_eq!(found.program.collective().root().map(|it| it.0), Some(1));
    assert_eq!(found.check(None).to_string(), "");
    let wrong = msccl_xml::read(&file(" root=\"0\"")).unwrap();
    assert!(!wrong.check(None).is_right());
    assert!(msccl_xml::read(&file(" root=\"2\"")).is_err());
    let unclear =
        file("").replace("type=\"r\"", "type=\"nop\"").replace("type=\"s\"", "type=\"nop\"");
    let report = msccl_xml::read(&unclear).unwrap().report;
    assert!(report.to_string().contains("does not follow"), "{report}");
}
