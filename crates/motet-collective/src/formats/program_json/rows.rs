//! One transfer as a row of the program file: an array of eight values, or nine with a path. Read by
//! hand rather than through a struct, because files have millions of them.

use std::fmt;

use motet_units::Rank;
use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};

use crate::program::{Action, Buffer, Slot, Transfer};

pub(super) const fn action_letter(action: Action) -> &'static str {
    match action {
        Action::Copy => "c",
        Action::Reduce => "r",
    }
}

pub(super) const fn buffer_letter(buffer: Buffer) -> &'static str {
    match buffer {
        Buffer::Input => "i",
        Buffer::Output => "o",
        Buffer::Scratch => "s",
        Buffer::Switch => "w",
    }
}

pub(super) struct TransferRow(pub(super) Transfer);

impl<'de> Deserialize<'de> for TransferRow {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(RowVisitor)
    }
}

struct RowVisitor;

impl<'de> Visitor<'de> for RowVisitor {
    type Value = TransferRow;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a transfer: [action, rank, buffer, offset, rank, buffer, offset, count]")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut row: A) -> Result<TransferRow, A::Error> {
        let mut length = 0;
        let mut missing = || {
            length += 1;
            A::Error::invalid_length(length - 1, &self)
        };
        let Letter(action) = row.next_element()?.ok_or_else(&mut missing)?;
        let action = [Action::Copy, Action::Reduce]
            .into_iter()
            .find(|it| action_letter(*it) == action)
            .ok_or_else(|| A::Error::custom("an action is \"c\" (copy) or \"r\" (reduce)"))?;
        let mut slots = [Slot::input(Rank(0), 0); 2];
        for slot in &mut slots {
            let rank = row.next_element()?.ok_or_else(&mut missing)?;
            let Letter(buffer) = row.next_element()?.ok_or_else(&mut missing)?;
            let buffer = Buffer::ALL.into_iter().find(|it| buffer_letter(*it) == buffer);
            let unknown = || A::Error::custom("a buffer is \"i\", \"o\", \"s\" or \"w\"");
            let buffer = buffer.ok_or_else(unknown)?;
            let offset = row.next_element()?.ok_or_else(&mut missing)?;
            *slot = Slot::new(Rank(rank), buffer, offset);
        }
        let count = row.next_element()?.ok_or_else(&mut missing)?;
        let path = row.next_element()?;
        let [src, dst] = slots;
        Ok(TransferRow(Transfer { action, src, dst, count, path }))
    }
}

/// A short string, borrowed: JSON escapes make no letter.
#[derive(serde::Deserialize)]
struct Letter<'a>(#[serde(borrow)] &'a str);
