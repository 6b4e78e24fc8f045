//! The solver against trying every assignment.

use proptest::prelude::*;

use super::*;

/// Clauses as (variable, sign) pairs, and counts with how many may hold.
type Formula = (Vec<Vec<(usize, bool)>>, Vec<(Vec<(usize, bool)>, usize)>);

const VARIABLES: usize = 10;

fn formula() -> impl Strategy<Value = Formula> {
    let literal = || (0..VARIABLES, any::<bool>());
    let clauses = prop::collection::vec(prop::collection::vec(literal(), 1..4), 0..40);
    // Literals may be listed twice, and beside their opposites.
    let counts = prop::collection::vec((prop::collection::vec(literal(), 2..8), 0usize..5), 0..6);
    (clauses, counts)
}

fn satisfies(assignment: u32, (clauses, counts): &Formula) -> bool {
    let holds = |&(var, sign): &(usize, bool)| (assignment >> var & 1 == 1) == sign;
    clauses.iter().all(|it| it.iter().any(holds))
        && counts.iter().all(|(it, most)| it.iter().filter(|it| holds(it)).count() <= *most)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn agrees_with_trying_everything(formula in formula()) {
        let possible = (0..1u32 << VARIABLES).any(|it| satisfies(it, &formula));
        let mut solver = Solver::default();
        let vars: Vec<Lit> = (0..VARIABLES).map(|_| solver.variable()).collect();
        let lit = |&(var, sign): &(usize, bool)| if sign { vars[var] } else { !vars[var] };
        for (number, (lits, most)) in formula.1.iter().enumerate() {
            let lits: Vec<Lit> = lits.iter().map(lit).collect();
            if number % 2 == 0 {
                solver.at_most(&lits, *most);
            } else {
                // The same said the other way round.
                let opposites: Vec<Lit> = lits.iter().map(|it| !*it).collect();
                solver.at_least(&opposites, lits.len().saturating_sub(*most));
            }
        }
        for lits in &formula.0 {
            solver.clause(&lits.iter().map(lit).collect::<Vec<_>>());
        }
        match solver.solve(u64::MAX, Clock::default()) {
            Verdict::Yes => {
                let found = (0..VARIABLES).filter(|it| solver.holds(vars[*it]));
                let found = found.fold(0u32, |all, it| all | 1 << it);
                prop_assert!(satisfies(found, &formula));
            }
            verdict => {
                prop_assert_eq!(verdict, Verdict::No);
                prop_assert!(!possible);
            }
        }
    }
}

/// `pigeons` into one hole fewer, with counts for holes.
fn pigeons(solver: &mut Solver, pigeons: usize) {
    let sits: Vec<Vec<Lit>> =
        (0..pigeons).map(|_| (1..pigeons).map(|_| solver.variable()).collect()).collect();
    for pigeon in &sits {
        solver.clause(pigeon);
    }
    for hole in 0..pigeons - 1 {
        let here: Vec<Lit> = sits.iter().map(|it| it[hole]).collect();
        solver.at_most(&here, 1);
    }
}

/// Long enough to restart, to forget clauses, and to be taken up again.
#[test]
fn a_search_that_was_stopped_goes_on() {
    let mut solver = Solver::default();
    pigeons(&mut solver, 8);
    let mut stops = 0;
    while solver.solve(100, Clock::default()) == Verdict::Stopped {
        stops += 1;
    }
    assert!(stops > 10, "{stops}");
    assert!(solver.conflicts() > 2500, "{}", solver.conflicts());
    assert_eq!(solver.solve(1, Clock::default()), Verdict::No);
}
