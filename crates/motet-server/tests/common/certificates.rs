//! Certificates that tests make for themselves.

/// A certificate authority, and a certificate for each name, in a folder.
pub fn certificates(folder: &std::path::Path, names: &[&str]) {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = params.self_signed(&key).unwrap();
    std::fs::write(folder.join("ca.pem"), ca.pem()).unwrap();
    let issuer = Issuer::new(params, key);
    for name in names {
        let key = KeyPair::generate().unwrap();
        let mine = CertificateParams::new(vec![(*name).to_owned()]).unwrap();
        let mine = mine.signed_by(&key, &issuer).unwrap();
        std::fs::write(folder.join(format!("{name}.pem")), mine.pem()).unwrap();
        std::fs::write(folder.join(format!("{name}.key")), key.serialize_pem()).unwrap();
    }
}
