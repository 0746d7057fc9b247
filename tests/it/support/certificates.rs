//! Certificates made on the spot: authorities, and what they have signed.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    date_time_ymd,
};

/// An authority that signs certificates.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate with its chain, and its key, as PEM.
pub struct Issued {
    pub chain: String,
    pub key: String,
}

impl Authority {
    /// A root, which signs itself.
    pub fn new(name: &str) -> Authority {
        let issuer = CertifiedIssuer::self_signed(Authority::params(name), KeyPair::generate().unwrap());
        Authority { issuer: issuer.unwrap() }
    }

    /// An intermediate authority, signed by this one.
    pub fn deputy(&self, name: &str) -> Authority {
        let issuer =
            CertifiedIssuer::signed_by(Authority::params(name), KeyPair::generate().unwrap(), &self.issuer);
        Authority { issuer: issuer.unwrap() }
    }

    fn params(name: &str) -> CertificateParams {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
    }

    /// Its own certificate.
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// A certificate for these hosts, for servers and for clients.
    pub fn issue(&self, hosts: &[&str]) -> Issued {
        self.issue_with(hosts, |_| {})
    }

    /// A certificate that was good from the year `from` until the year `until`.
    pub fn issue_for_years(&self, hosts: &[&str], from: i32, until: i32) -> Issued {
        self.issue_with(hosts, |params| {
            params.not_before = date_time_ymd(from, 1, 1);
            params.not_after = date_time_ymd(until, 1, 1);
        })
    }

    fn issue_with(&self, hosts: &[&str], set: impl FnOnce(&mut CertificateParams)) -> Issued {
        let (mut params, key) = (params(hosts), KeyPair::generate().unwrap());
        set(&mut params);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Issued { chain: certificate.pem(), key: key.serialize_pem() }
    }
}

/// A self-signed certificate.
pub fn self_signed(hosts: &[&str]) -> Issued {
    self_signed_with(params(hosts))
}

/// A self-signed certificate that says it is an authority, too: what `openssl req -x509` makes by default.
pub fn self_signed_authority(hosts: &[&str]) -> Issued {
    let mut params = params(hosts);
    params.distinguished_name.push(DnType::CommonName, "its own authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    self_signed_with(params)
}

fn self_signed_with(params: CertificateParams) -> Issued {
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    Issued { chain: certificate.pem(), key: key.serialize_pem() }
}

fn params(hosts: &[&str]) -> CertificateParams {
    let hosts: Vec<String> = hosts.iter().map(|host| String::from(*host)).collect();
    let mut params = CertificateParams::new(hosts).unwrap();
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    params
}
