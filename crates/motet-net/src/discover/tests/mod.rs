//! Recorded servers as sysfs trees, and trees that are broken.

mod broken;
mod recorded;
mod tree;
