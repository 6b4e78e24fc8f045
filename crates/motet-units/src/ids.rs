//! Typed ids: dense indices that cannot be mistaken for one another.

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            /// The id of the element at `index` of a dense list. Lists here are far below 2³²
            /// elements (readers refuse more), so larger indices saturate rather than wrap.
            #[must_use]
            pub fn from_index(index: usize) -> Self {
                Self(u32::try_from(index).unwrap_or(u32::MAX))
            }

            /// As an index into a list.
            #[must_use]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    };
}

id!(
    /// A node of a network.
    NodeId,
    "n"
);
id!(
    /// A directed link of a network.
    LinkId,
    "l"
);
id!(
    /// A rank of a collective: a GPU's number within its group.
    Rank,
    ""
);
