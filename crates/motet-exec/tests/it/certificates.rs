//! Certificates that tests make for themselves, in PEM files of a folder.

#![allow(dead_code, reason = "not every test uses all of it")]
#![allow(clippy::unwrap_used, reason = "tests may fail, and say so")]

use std::path::{Path, PathBuf};

use motet_exec::TlsFiles;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

/// A CA whose file is `<ca>.pem`, and a certificate of it for a DNS name, `<ca>-<name>.pem` with `<ca>-<name>.key`.
pub(crate) fn make(folder: &Path, ca: &str, names: &[&str]) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(rcgen::DnType::CommonName, ca);
    let root = params.self_signed(&key).unwrap();
    std::fs::write(folder.join(format!("{ca}.pem")), root.pem()).unwrap();
    let issuer = Issuer::new(params, key);
    for name in names {
        let key = KeyPair::generate().unwrap();
        let own = CertificateParams::new(vec![(*name).to_owned()]).unwrap();
        let own = own.signed_by(&key, &issuer).unwrap();
        std::fs::write(folder.join(format!("{ca}-{name}.pem")), own.pem()).unwrap();
        std::fs::write(folder.join(format!("{ca}-{name}.key")), key.serialize_pem()).unwrap();
    }
}

/// The files of a certificate that [`make`] has made.
pub(crate) fn files(folder: &Path, ca: &str, name: &str) -> TlsFiles {
    let file = |it: String| -> Option<PathBuf> { Some(folder.join(it)) };
    TlsFiles {
        certificate: file(format!("{ca}-{name}.pem")),
        key: file(format!("{ca}-{name}.key")),
        ca: file(format!("{ca}.pem")),
        name: Some(name.to_owned()),
    }
}
