//! [`UnknownName`]: the error for a name that is not one of a fixed list, with a suggestion. Shared by everything that is read by
//! name: kinds of nodes, classes of links, methods.

use motet_units::brief;

use crate::nearest;

/// A name that is not in the list of valid ones.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is not a {what}; {}known: {known}", self.guess())]
pub struct UnknownName {
    /// What kind of name it should be: "node kind", say.
    pub what: &'static str,
    /// The name that was given.
    pub name: String,
    /// All names of the list, separated by a comma and a blank.
    pub known: String,
}

impl UnknownName {
    /// `name` is none of `known`. A long name is shortened, so that no error repeats a whole file.
    #[must_use]
    pub fn new<'a>(
        what: &'static str,
        name: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let known = known.into_iter().collect::<Vec<_>>().join(", ");
        Self { what, name: brief(name).into_owned(), known }
    }

    /// "did you mean …?" if a name of the list is close to what was written.
    fn guess(&self) -> String {
        let near = nearest::nearest(&self.name, self.known.split(", "));
        match near.first() {
            Some(near) => format!("did you mean `{near}`? "),
            None => String::new(),
        }
    }
}
