//! The examples and the README are documentation and golden tests at once: every `console` block
//! is run from the repository's root and its output compared. `TRYCMD=overwrite cargo test -p
//! motet` renews them.

#[test]
fn examples_print_what_they_say() {
    // So that the commands are those a user types after cloning.
    std::env::set_current_dir("../..").unwrap();
    trycmd::TestCases::new()
        .case("examples/*.md")
        .case("README.md")
        .case("crates/motet/tests/cli/*.trycmd");
}
