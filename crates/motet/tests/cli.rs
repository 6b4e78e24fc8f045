//! The examples and the README are documentation and golden tests at once: every `console` block
//! is run and its output compared. `TRYCMD=overwrite cargo test -p motet` renews them.

#[test]
fn examples_print_what_they_say() {
    trycmd::TestCases::new().case("../../examples/*.md").case("../../README.md");
}
