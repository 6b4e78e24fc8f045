//! The macro for categories: enums whose values have names, an order and a place in a one-hot block.
//!
//! What the agent sees is mostly categories. Each is declared once, with the names that `agent show` prints and that
//! encodings are documented by, so that a value cannot exist without a name or a place.

/// Declares an enum with `ALL`, `name`, `index` and `Display`.
macro_rules! category {
    (
        $(#[$doc:meta])* $type:ident {
            $($(#[$variant_doc:meta])* $variant:ident = $name:literal),+ $(,)?
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $type { $($(#[$variant_doc])* $variant),+ }

        impl $type {
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }

            /// Its place in [`ALL`](Self::ALL).
            #[must_use]
            pub const fn index(self) -> usize {
                self as usize
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }
    };
}
pub(crate) use category;
