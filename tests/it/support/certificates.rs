//! Certificates made on the spot: authorities, and what they have signed.

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber,
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
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params
    }

    /// A list that revokes the certificates with these serial numbers, as DER (RFC 5280 §5).
    pub fn revoke(&self, serials: &[u64]) -> Vec<u8> {
        let revoked = |serial: &u64| RevokedCertParams {
            serial_number: SerialNumber::from(*serial),
            revocation_time: date_time_ymd(2025, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2025, 1, 1),
            next_update: date_time_ymd(2125, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: serials.iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        list.signed_by(&self.issuer).unwrap().der().to_vec()
    }

    /// A certificate with a serial number.
    pub fn issue_numbered(&self, hosts: &[&str], serial: u64) -> Issued {
        self.issue_with(hosts, |params| params.serial_number = Some(SerialNumber::from(serial)))
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
