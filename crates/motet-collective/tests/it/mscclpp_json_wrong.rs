//! Wrong plans, one for each finding.
