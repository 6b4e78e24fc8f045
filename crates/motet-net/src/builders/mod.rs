//! Networks from a few parameters: well-known topologies, servers, fabrics and WANs.
//!
//! Each is a [`Template`] in the one registry, [`templates`]; the cluster file's tables and
//! `motet net gen` both go through it. Several are put together by an [`Assembly`].
//!
//! ```
//! use motet_net::builders::{Params, find};
//!
//! let torus = find("torus-2d")?.build(&Params::from_words(["rows=3", "columns=5"])?)?;
//! assert_eq!((torus.nodes().len(), torus.links().len()), (15, 60));
//! # Ok::<(), motet_net::builders::TemplateError>(())
//! ```
//!
//! - [`template`]: parameters, their kinds, defaults and docs.
//! - [`assembly`]: open ports and how fabrics and WANs join them.
//! - one file for each family of topologies; servers in `server/`.
//! - [`mod@reference`]: the registry as text, for docs and help.

pub mod assembly;
mod bcube;
mod common;
mod direct;
mod dragonfly;
mod fat_tree;
mod grid;
mod hammingmesh;
mod jellyfish;
mod leaf_spine;
mod rail;
pub mod reference;
mod server;
pub mod template;
#[cfg(test)]
pub(crate) mod testing;
mod two_dc;
mod wan;

pub use assembly::{Assembly, Fetch};
pub use template::{Family, Param, ParamKind, Params, Template, TemplateError};

use crate::nearest;

static TEMPLATES: [Template; 32] = [
    server::DGX_1,
    server::DGX_2,
    server::DGX_A100,
    server::DGX_H100,
    server::DGX_H200,
    server::DGX_B200,
    server::GB200_NVL72,
    server::GB300_NVL72,
    server::GH200,
    server::MI250,
    server::MI300X,
    server::NDV2,
    server::V100_X4,
    server::SERVER_FILE,
    leaf_spine::SWITCH,
    leaf_spine::DIRECT,
    leaf_spine::LEAF_SPINE,
    fat_tree::FAT_TREE,
    rail::RAIL,
    rail::RAIL_OPTICAL,
    dragonfly::DRAGONFLY,
    jellyfish::JELLYFISH,
    direct::RING,
    grid::MESH,
    grid::TORUS_2D,
    grid::TORUS_3D,
    direct::HYPERCUBE,
    direct::FULL_MESH,
    hammingmesh::HAMMINGMESH,
    bcube::BCUBE,
    wan::WAN,
    two_dc::TWO_DC,
];

/// All templates: servers, fabrics, WANs.
#[must_use]
pub fn templates() -> &'static [Template] {
    &TEMPLATES
}

/// The template called `name`.
pub fn find(name: &str) -> Result<&'static Template, TemplateError> {
    TEMPLATES.iter().find(|it| it.name == name).ok_or_else(|| TemplateError {
        key: Some("kind".to_owned()),
        problem: format!("there is no template `{name}`"),
        remedy: nearest::remedy(name, TEMPLATES.iter().map(|it| it.name)),
    })
}

#[cfg(test)]
mod tests {
    use super::template::REQUIRED;
    use super::*;
    use testing::{build, fails, is_connected};

    #[test]
    fn every_template_builds_with_its_defaults() {
        for template in templates() {
            if template.params.iter().any(|it| it.default == REQUIRED) || template.name == "direct"
            {
                continue;
            }
            let net = template.build(&Params::new()).unwrap_or_else(|it| panic!("{it}"));
            assert!(is_connected(&net), "{}", template.name);
            assert!(net.ranks().len() > 1, "{}", template.name);
            assert_eq!(net.name(), template.name);
        }
    }

    /// Every value of every choice and flag builds, and the result is connected.
    #[test]
    fn every_choice_builds() {
        for template in
            templates().iter().filter(|it| !matches!(it.name, "wan" | "server-file" | "direct"))
        {
            for param in template.params {
                let values: &[&str] = match param.kind {
                    ParamKind::Choice(values) => values,
                    ParamKind::Flag => &["true", "false"],
                    _ => continue,
                };
                for value in values {
                    let mut words = vec![format!("{}={value}", param.name)];
                    if template.family == Family::Server && param.name != "detail" {
                        words.push("count=2".to_owned());
                    }
                    // Where every GPU has a NIC of its own, none can relay.
                    if (param.name, *value) == ("attach", "relay") {
                        words.push("nics=1".to_owned());
                    }
                    let params = Params::from_words(&words).unwrap();
                    let net = template.build(&params).unwrap_or_else(|it| panic!("{it}"));
                    let joined = (param.name, *value) != ("fabric", "none");
                    assert_eq!(is_connected(&net), joined, "{} {words:?}", template.name);
                }
            }
        }
    }

    #[test]
    fn names_are_unique_and_documented() {
        for template in templates() {
            assert_eq!(templates().iter().filter(|it| it.name == template.name).count(), 1);
            assert!(!template.doc.is_empty());
            for param in template.params {
                let same = template.params.iter().filter(|it| it.name == param.name);
                assert_eq!(same.count(), 1, "{} {}", template.name, param.name);
                assert!(!param.doc.is_empty());
            }
        }
    }

    #[test]
    fn unknown_names_say_what_is_known() {
        let error = find("dgx-a10").unwrap_err();
        assert!(error.remedy.unwrap().contains("`dgx-a100`"));
        let error = fails("ring", &["gpu=4"]);
        assert_eq!(error.problem, "`ring` has no parameter `gpu`");
        assert!(error.remedy.unwrap().contains("did you mean `gpus`"));
        for word in ["gpus=0", "gpus=-1", "gpus=99999999999", "bandwidth=5", "latency=fast"] {
            assert!(fails("ring", &[word]).key.is_some(), "{word}");
        }
        assert!(fails("ring", &["bandwidth=0 GB/s"]).problem.contains("some bandwidth"));
        assert!(Params::from_words(["gpus"]).unwrap_err().problem.contains("key=value"));
    }

    /// Counts that would not fit are refused before anything is allocated for them.
    #[test]
    fn hostile_counts_are_refused() {
        let cases: &[(&str, &[&str])] = &[
            ("torus-3d", &["x=1000000", "y=1000000", "z=1000000"]),
            ("mesh", &["rows=1048576", "columns=1048576"]),
            ("leaf-spine", &["leaves=65536", "spines=65536"]),
            ("leaf-spine", &["leaves=65536", "gpus-per-leaf=1048576"]),
            ("full-mesh", &["gpus=4096"]),
            ("dragonfly", &["routers=1024", "global-links=1024"]),
            ("dragonfly", &["gpus-per-router=1024", "routers=1024"]),
            ("jellyfish", &["switches=65536", "degree=1024"]),
            ("hammingmesh", &["board-columns=1024", "columns=1024", "rows=1024"]),
            ("fat-tree", &["k=160"]),
            ("gb200-nvl72", &["count=65536"]),
            ("rail", &["servers=65536", "ports-per-leaf=1", "spines=4096"]),
            ("two-dc", &["leaves=1024", "spines=1024", "borders=1024", "gpus=65536"]),
        ];
        for (kind, words) in cases {
            let error = fails(kind, words);
            assert!(error.problem.contains("at most"), "{kind}: {error}");
        }
    }

    #[test]
    fn combined_under_names_of_their_own() {
        let mut assembly = Assembly::new("two");
        for name in ["a-", "b-"] {
            let params = Params::from_words([format!("name={name}")]).unwrap();
            assembly.add(find("ring").unwrap(), &params).unwrap();
        }
        let again = assembly.add(find("ring").unwrap(), &Params::from_words(["name=a-"]).unwrap());
        let error = again.unwrap_err();
        assert!(error.remedy.unwrap().contains("another `name`"));
        assert_eq!(build("ring", &["name=x"]).nodes()[0].name, "xgpu0");
    }

    #[test]
    fn fabrics_join_open_ports() {
        let add = |assembly: &mut Assembly<'_>, kind: &str, words: &[&str]| {
            assembly.add(find(kind).unwrap(), &Params::from_words(words).unwrap())
        };
        let mut assembly = Assembly::new("wrong");
        add(&mut assembly, "dgx-a100", &[]).unwrap();
        let error = add(&mut assembly, "leaf-spine", &["gpus-per-leaf=3"]).unwrap_err();
        assert_eq!(error.key.as_deref(), Some("gpus-per-leaf"));
        let mut assembly = Assembly::new("pod");
        add(&mut assembly, "dgx-a100", &["count=2"]).unwrap();
        add(&mut assembly, "dgx-h100", &["count=2", "detail=nics"]).unwrap();
        add(&mut assembly, "leaf-spine", &["leaves=4"]).unwrap();
        let net = assembly.finish().unwrap();
        assert!(is_connected(&net));
        assert_eq!(net.ranks().len(), 32);
        assert_eq!(net.nodes().len(), 32 + 4 + 16 + 4 + 2);
    }
}
