//! The JSON of a Kineto trace: its events and their arguments, with values as they are written.
//!
//! Values are kept as text, because writers of different versions put the same number as a number or in
//! quotes, and because times in microseconds since 1970 have more digits than a float keeps.

use std::borrow::Cow;
use std::fmt;

use motet_net::formats::{Position, ReadError};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::recording::{LoggedSpan, Nanoseconds};

#[derive(Deserialize)]
pub(super) struct File<'a> {
    #[serde(borrow, rename = "distributedInfo", default)]
    pub(super) distributed: Option<Distributed<'a>>,
    /// The moment that times of events count from, in newer traces.
    #[serde(borrow, rename = "baseTimeNanoseconds", default)]
    pub(super) base: Option<&'a RawValue>,
    #[serde(borrow, rename = "traceEvents")]
    pub(super) events: Vec<Event<'a>>,
}

#[derive(Deserialize)]
pub(super) struct Distributed<'a> {
    #[serde(borrow, default)]
    pub(super) rank: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) world_size: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) pg_config: Vec<GroupConfig<'a>>,
}

#[derive(Deserialize)]
pub(super) struct GroupConfig<'a> {
    #[serde(borrow, default)]
    pub(super) pg_name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) ranks: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct Event<'a> {
    #[serde(borrow, default)]
    pub(super) ph: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) cat: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) tid: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) ts: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) dur: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) args: Option<Args<'a>>,
}

impl Event<'_> {
    pub(super) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or("")
    }

    pub(super) fn is(&self, category: &str) -> bool {
        self.cat.as_deref().is_some_and(|it| it.eq_ignore_ascii_case(category))
    }

    /// The event's interval, if it is an event with a length.
    pub(super) fn span(&self, base: Nanoseconds) -> Option<LoggedSpan> {
        if self.ph.as_deref() != Some("X") {
            return None;
        }
        let start = nanoseconds(self.ts?)?.checked_add(base)?;
        let end = start.checked_add(self.dur.map_or(Some(0), nanoseconds)?.max(0))?;
        Some(LoggedSpan { start, end })
    }
}

/// The arguments that are read; [`KEYS`] has their names in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    ExternalId,
    Correlation,
    Stream,
    Collective,
    Dtype,
    InElements,
    OutElements,
    GroupSize,
    GroupName,
    GroupId,
    GroupDescription,
    GroupRanks,
    RankStart,
    RankStride,
    Rank,
    Sequence,
    From,
    To,
}

const KEYS: [&str; 18] = [
    "External id",
    "correlation",
    "stream",
    "Collective name",
    "dtype",
    "In msg nelems",
    "Out msg nelems",
    "Group size",
    "Process Group Name",
    "Process Group ID",
    "Process Group Description",
    "Process Group Ranks",
    "Global rank start",
    "Global rank stride",
    "Rank",
    "Seq",
    "Src Rank",
    "Dst Rank",
];

/// Arguments of an event; boxed, because most events have none of them.
#[derive(Clone, Default)]
pub(super) struct Args<'a>(Option<Box<[Option<&'a RawValue>; KEYS.len()]>>);

impl<'a> Args<'a> {
    pub(super) fn get(&self, key: Key) -> Option<&'a RawValue> {
        self.0.as_ref()?[key as usize]
    }

    pub(super) fn text(&self, key: Key) -> Option<Cow<'a, str>> {
        self.get(key).map(text)
    }

    pub(super) fn number<T: TryFrom<i64>>(&self, key: Key) -> Option<T> {
        number(self.get(key)?)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Args<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Picker;
        impl<'de> Visitor<'de> for Picker {
            type Value = Args<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an event's arguments")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Args<'de>, A::Error> {
                let mut found: Option<Box<[Option<&RawValue>; KEYS.len()]>> = None;
                while let Some(key) = map.next_key::<Cow<'_, str>>()? {
                    match KEYS.iter().position(|it| **it == *key) {
                        Some(place) => {
                            found.get_or_insert_default()[place] = Some(map.next_value()?);
                        }
                        None => {
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                Ok(Args(found))
            }
        }
        from.deserialize_map(Picker)
    }
}

/// A value without its quotes.
pub(super) fn text(raw: &RawValue) -> Cow<'_, str> {
    serde_json::from_str::<String>(raw.get()).map_or(Cow::Borrowed(raw.get()), Cow::Owned)
}

/// A whole number, in quotes or not.
pub(super) fn number<T: TryFrom<i64>>(raw: &RawValue) -> Option<T> {
    let number: i64 = text(raw).trim().parse().ok()?;
    T::try_from(number).ok()
}

/// Microseconds with a fraction, as nanoseconds; finer digits are dropped.
pub(super) fn nanoseconds(raw: &RawValue) -> Option<Nanoseconds> {
    let text = text(raw);
    let text = text.trim();
    if text.contains(['e', 'E']) {
        let ns = text.parse::<f64>().ok()? * 1e3;
        return (ns.abs() < 9e18).then_some(ns as Nanoseconds);
    }
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |it| (-1, it));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let whole: Nanoseconds = whole.parse().ok()?;
    let mut part = 0;
    for place in 0..3 {
        let digit = fraction
            .as_bytes()
            .get(place)
            .map_or(Some(0), |it| it.is_ascii_digit().then(|| Nanoseconds::from(*it - b'0')))?;
        part = part * 10 + digit;
    }
    whole.checked_mul(1000)?.checked_add(part).map(|it| it * sign)
}

/// A list such as `[0, 1]`, in quotes or not; `None` if it is truncated (`[0, 1, ..., 63]`) or empty.
pub(super) fn ranks(raw: &RawValue) -> Option<Vec<u32>> {
    let text = text(raw);
    let inner = text.trim().strip_prefix('[')?.strip_suffix(']')?;
    let ranks: Option<Vec<u32>> = inner.split(',').map(|it| it.trim().parse().ok()).collect();
    ranks.filter(|it| !it.is_empty())
}

pub(super) fn parse(text: &str) -> Result<File<'_>, ReadError> {
    serde_json::from_str(text).map_err(|error| {
        let at = Position { line: error.line(), column: error.column() };
        let cut = error.is_eof();
        let problem = if cut {
            "the trace breaks off".to_owned()
        } else {
            format!("not a Kineto trace: {error}")
        };
        let remedy = if cut {
            "let the profiler finish before the job ends, or copy the file again"
        } else {
            "give the JSON that torch.profiler's export_chrome_trace wrote"
        };
        ReadError { at: Some(at), ..ReadError::new(problem).with_remedy(remedy) }
    })
}
