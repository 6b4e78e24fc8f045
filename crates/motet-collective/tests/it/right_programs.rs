//! The textbook algorithms verify.

use crate::programs;
use motet_collective::verify;

#[test]
fn textbook_programs_are_right() {
    for program in programs::all(5).into_iter().chain(programs::in_switch(5)) {
        let report = verify::check(&program, None);
        assert!(report.is_right(), "{}:\n{report}", program.name());
    }
}
