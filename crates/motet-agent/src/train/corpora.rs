//! The seeds of the fuzzers of policies and checkpoints: what is written today, so that fuzzing begins behind the checks
//! of versions and checksums. `BLESS=1 cargo test -p motet-agent corpora` writes them anew after a change of a format.

use motet_runtime::Checksum;
use motet_units::Seed;

use super::Trainer;
use super::settings::Settings;
use crate::lstm::{Net, PolicyErrorKind, PolicyFile, Shape, Variant, features};

const SMALLEST: Shape = Shape { encoder: 1, hidden: 1 };

fn policy() -> String {
    let net = Net::new(SMALLEST, Seed::new(1));
    PolicyFile { net, variant: Variant::FULL, seed: 1, updates: 0 }.write()
}

fn training() -> String {
    let settings = Settings { updates: 3, lives: 32, shape: SMALLEST, ..Settings::default() };
    Trainer::new(settings).write()
}

/// A policy whose actions are others, with a checksum that is right.
fn other_actions() -> String {
    let text = policy().replacen(&features::checksum().to_string(), "0123456789abcdef", 1);
    let body = &text[..text.rfind("checksum ").unwrap()];
    format!("{body}checksum {}\n", Checksum::of(body.as_bytes()))
}

fn half(text: String) -> String {
    text[..text.len() / 2].to_owned()
}

#[test]
fn corpora_of_the_fuzzers_are_what_is_written_today() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let all = [
        ("agent_policy/smallest", policy()),
        ("agent_policy/other_actions", other_actions()),
        ("agent_policy/truncated", half(policy())),
        ("agent_training/smallest", training()),
        ("agent_training/truncated", half(training())),
    ];
    for (name, text) in all {
        let path = folder.join(name);
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let kept = std::fs::read_to_string(&path).unwrap();
        assert!(kept == text, "{name} is of another format: BLESS=1 cargo test writes it anew");
    }
    assert!(PolicyFile::read(&policy()).is_ok() && Trainer::read(&training()).is_ok());
    let refused = PolicyFile::read(&other_actions()).unwrap_err().kind;
    assert_eq!(refused, PolicyErrorKind::OtherActions);
    assert_eq!(PolicyFile::read(&half(policy())).unwrap_err().kind, PolicyErrorKind::Truncated);
    assert_eq!(Trainer::read(&half(training())).unwrap_err().kind, PolicyErrorKind::Truncated);
}
