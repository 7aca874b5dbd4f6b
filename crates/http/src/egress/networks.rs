//! Networks that are not part of the public internet, and networks that are allowed nevertheless.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

/// Addresses with a common prefix of bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cidr {
    base: IpAddr,
    prefix: u8,
}

const fn v4(a: u8, b: u8, c: u8, d: u8, prefix: u8) -> Cidr {
    Cidr { base: IpAddr::V4(Ipv4Addr::new(a, b, c, d)), prefix }
}

const fn v6(a: u16, b: u16, c: u16, h: u16, prefix: u8) -> Cidr {
    Cidr { base: IpAddr::V6(Ipv6Addr::new(a, b, c, 0, 0, 0, 0, h)), prefix }
}

/// Networks outside the public internet. Sources: the IANA registries of special-purpose addresses, and the addresses
/// at which cloud platforms hand out credentials.
const RESERVED: &[(Cidr, &str)] = &[
    (v4(0, 0, 0, 0, 8), "this network"),
    (v4(10, 0, 0, 0, 8), "private"),
    (v4(100, 64, 0, 0, 10), "shared by a carrier"),
    (v4(127, 0, 0, 0, 8), "loopback"),
    // Azure's platform: a public address that means the host of the virtual machine.
    (v4(168, 63, 129, 16, 32), "of a cloud's platform"),
    (v4(169, 254, 0, 0, 16), "link-local"),
    (v4(172, 16, 0, 0, 12), "private"),
    (v4(192, 0, 0, 0, 24), "for protocols"),
    (v4(192, 0, 2, 0, 24), "for documentation"),
    (v4(192, 88, 99, 0, 24), "a 6to4 relay"),
    (v4(192, 168, 0, 0, 16), "private"),
    (v4(198, 18, 0, 0, 15), "for benchmarks"),
    (v4(198, 51, 100, 0, 24), "for documentation"),
    (v4(203, 0, 113, 0, 24), "for documentation"),
    (v4(224, 0, 0, 0, 4), "multicast"),
    (v4(240, 0, 0, 0, 4), "reserved"),
    (v6(0, 0, 0, 0, 128), "unspecified"),
    (v6(0, 0, 0, 1, 128), "loopback"),
    (v6(0x64, 0xff9b, 1, 0, 48), "a translator's"),
    (v6(0x2001, 0, 0, 0, 23), "for protocols"),
    (v6(0x2001, 0xdb8, 0, 0, 32), "for documentation"),
    (v6(0x2002, 0, 0, 0, 16), "6to4"),
    (v6(0x3fff, 0, 0, 0, 20), "for documentation"),
    (v6(0xfc00, 0, 0, 0, 7), "private"),
    (v6(0xfe80, 0, 0, 0, 10), "link-local"),
    (v6(0xff00, 0, 0, 0, 8), "multicast"),
];

/// The only part of IPv6 on the public internet. New public allocations within it need no entry here.
const GLOBAL: Cidr = v6(0x2000, 0, 0, 0, 3);
/// IPv4 as seen from networks without it (RFC 6052): a connection reaches the address inside.
const TRANSLATED: Cidr = v6(0x64, 0xff9b, 0, 0, 96);

const LOOPBACK: &[Cidr] = &[v4(127, 0, 0, 0, 8), v6(0, 0, 0, 1, 128)];
const PRIVATE: &[Cidr] = &[v4(10, 0, 0, 0, 8), v4(172, 16, 0, 0, 12), v4(192, 168, 0, 0, 16), v6(0xfc00, 0, 0, 0, 7)];
/// Private addresses at which cloud platforms hand out credentials: the word `private` excludes them.
const PLATFORMS: &[Cidr] = &[v6(0xfd00, 0xec2, 0, 0, 32), v6(0xfd20, 0xce, 0, 0, 32)];

/// Address at which a connection to `address` ends: IPv4 has several forms within IPv6.
fn reached(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else { return address };
    let [.., a, b, c, d] = v6.octets();
    if v6.to_ipv4_mapped().is_some() || TRANSLATED.holds(address) {
        return IpAddr::V4(Ipv4Addr::new(a, b, c, d));
    }
    address
}

/// Kind of a special-purpose address; none if the address is public.
pub fn reserved(address: IpAddr) -> Option<&'static str> {
    let address = reached(address);
    let known = RESERVED.iter().find(|(network, _)| network.holds(address)).map(|(_, what)| *what);
    known.or_else(|| (address.is_ipv6() && !GLOBAL.holds(address)).then_some("reserved"))
}

impl Cidr {
    fn holds(&self, address: IpAddr) -> bool {
        let bits = |address, width: u32, prefix: u8| -> u128 {
            let bits = match address {
                IpAddr::V4(v4) => u128::from(v4.to_bits()),
                IpAddr::V6(v6) => v6.to_bits(),
            };
            // A shift by the full width leaves no bits.
            bits.checked_shr(width - u32::from(prefix)).unwrap_or(0)
        };
        let width = match (self.base, address) {
            (IpAddr::V4(_), IpAddr::V4(_)) => 32,
            (IpAddr::V6(_), IpAddr::V6(_)) => 128,
            _ => return false,
        };
        bits(self.base, width, self.prefix) == bits(address, width, self.prefix)
    }
}

/// Network in which agents may be reached although it is not public, as an operator writes it: `private`, `loopback`,
/// an address, or a network like `10.1.0.0/16`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// 10/8, 172.16/12, 192.168/16 and fc00::/7, without addresses known to hand out a cloud's credentials.
    Private,
    /// Addresses of this machine itself.
    Loopback,
    /// Exactly these addresses, of whatever kind.
    Cidr(Cidr),
}

/// Text that is not a [`Network`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a network: expected private, loopback, an address, or a network like 10.1.0.0/16")]
pub struct NotANetwork(String);

impl FromStr for Network {
    type Err = NotANetwork;

    fn from_str(text: &str) -> Result<Self, NotANetwork> {
        let wrong = || NotANetwork(text.to_owned());
        match text {
            "private" => return Ok(Self::Private),
            "loopback" => return Ok(Self::Loopback),
            _ => {}
        }
        let (base, prefix) = text.split_once('/').map_or((text, None), |(base, prefix)| (base, Some(prefix)));
        let base: IpAddr = base.parse().map_err(|_| wrong())?;
        let width = if base.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            // The number parser alone would accept a sign.
            Some(digits) if !digits.bytes().all(|byte| byte.is_ascii_digit()) => return Err(wrong()),
            Some(digits) => digits.parse().ok().filter(|prefix| *prefix <= width).ok_or_else(wrong)?,
            None => width,
        };
        Ok(Self::Cidr(Cidr { base, prefix }))
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Private => f.write_str("private"),
            Self::Loopback => f.write_str("loopback"),
            Self::Cidr(Cidr { base, prefix }) => write!(f, "{base}/{prefix}"),
        }
    }
}

impl Network {
    /// True if a connection to this address ends in the network.
    pub fn holds(&self, address: IpAddr) -> bool {
        let address = reached(address);
        let any = |networks: &[Cidr]| networks.iter().any(|network| network.holds(address));
        match self {
            Self::Private => any(PRIVATE) && !any(PLATFORMS),
            Self::Loopback => any(LOOPBACK),
            Self::Cidr(cidr) => cidr.holds(address),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect(text)
    }

    #[test]
    fn addresses_outside_the_public_internet() {
        for (address, what) in [
            ("0.0.0.0", "this network"),
            ("0.255.255.255", "this network"),
            ("10.0.0.0", "private"),
            ("10.255.255.255", "private"),
            ("100.64.0.0", "shared by a carrier"),
            ("100.127.255.255", "shared by a carrier"),
            ("127.0.0.1", "loopback"),
            ("127.255.255.254", "loopback"),
            ("168.63.129.16", "of a cloud's platform"),
            ("169.254.169.254", "link-local"),
            ("172.16.0.1", "private"),
            ("172.31.255.255", "private"),
            ("192.0.0.192", "for protocols"),
            ("192.0.2.1", "for documentation"),
            ("192.88.99.1", "a 6to4 relay"),
            ("192.168.0.1", "private"),
            ("198.18.0.1", "for benchmarks"),
            ("198.19.255.255", "for benchmarks"),
            ("198.51.100.7", "for documentation"),
            ("203.0.113.7", "for documentation"),
            ("224.0.0.1", "multicast"),
            ("239.255.255.255", "multicast"),
            ("240.0.0.1", "reserved"),
            ("255.255.255.255", "reserved"),
            ("::", "unspecified"),
            ("::1", "loopback"),
            ("::ffff:127.0.0.1", "loopback"),
            ("::ffff:10.1.2.3", "private"),
            ("::ffff:169.254.169.254", "link-local"),
            // Two older forms of IPv4 within IPv6: IPv4-compatible, and SIIT's.
            ("::127.0.0.1", "reserved"),
            ("::ffff:0:127.0.0.1", "reserved"),
            ("64:ff9b::10.0.0.1", "private"),
            ("64:ff9b::a9fe:a9fe", "link-local"),
            ("64:ff9b:1::1", "a translator's"),
            ("64:ff9b:1:ffff::8.8.8.8", "a translator's"),
            ("64:ff9b::1:0:0", "reserved"),
            ("100::1", "reserved"),
            ("2001::1", "for protocols"),
            // Teredo: with 127.0.0.1 inside, and with a public server in front.
            ("2001:0:7f00:1::", "for protocols"),
            ("2001:0:808:808:0:0:80ff:fffe", "for protocols"),
            ("2001:2::1", "for protocols"),
            ("2001:20::1", "for protocols"),
            ("2001:db8::1", "for documentation"),
            ("2002:7f00:1::", "6to4"),
            ("2002:a00:1::1", "6to4"),
            ("3fff:fff::1", "for documentation"),
            ("4000::1", "reserved"),
            ("5f00::1", "reserved"),
            ("fc00::1", "private"),
            ("fd00:ec2::254", "private"),
            ("fdff:ffff::1", "private"),
            ("fe80::1", "link-local"),
            ("febf::1", "link-local"),
            ("fec0::1", "reserved"),
            ("ff02::1", "multicast"),
        ] {
            assert_eq!(reserved(ip(address)), Some(what), "{address}");
        }
    }

    #[test]
    fn the_public_internet() {
        for address in [
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "168.63.129.17",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "2001:200::1",
            "2001:4860:4860::8888",
            "2606:4700::1111",
            "2a00:1450::1",
            "3ffe::1",
            "3fff:1000::1",
        ] {
            assert_eq!(reserved(ip(address)), None, "{address}");
        }
    }

    #[test]
    fn networks_are_what_they_say() {
        for (network, inside, outside) in [
            (
                "private",
                vec!["10.0.0.1", "172.20.0.1", "192.168.7.7", "fd12::1", "::ffff:10.0.0.1", "64:ff9b::a00:1"],
                vec![
                    "127.0.0.1",
                    "169.254.169.254",
                    "100.64.0.1",
                    "0.0.0.0",
                    "::1",
                    "fe80::1",
                    "fd00:ec2::254",
                    "fd20:ce::254",
                ],
            ),
            ("loopback", vec!["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"], vec!["0.0.0.0", "10.0.0.1", "::"]),
            (
                "10.1.0.0/16",
                vec!["10.1.0.0", "10.1.255.255", "::ffff:10.1.0.1"],
                vec!["10.2.0.0", "10.0.255.255", "::1"],
            ),
            ("10.1.7.7/16", vec!["10.1.0.0"], vec!["10.2.7.7"]),
            ("169.254.169.254", vec!["169.254.169.254"], vec!["169.254.169.253", "::1"]),
            ("0.0.0.0/0", vec!["127.0.0.1", "255.255.255.255", "64:ff9b::a00:1"], vec!["::1", "fd12::1"]),
            ("::/0", vec!["::1", "fd00:ec2::254"], vec!["127.0.0.1", "::ffff:127.0.0.1"]),
            ("fd00:ec2::/32", vec!["fd00:ec2::254"], vec!["fd00:ec3::1"]),
        ] {
            let network: Network = network.parse().expect(network);
            inside.iter().for_each(|address| assert!(network.holds(ip(address)), "{network}: {address}"));
            outside.iter().for_each(|address| assert!(!network.holds(ip(address)), "{network}: {address}"));
        }
    }

    #[test]
    fn invalid_networks_are_refused() {
        for text in [
            "",
            "public",
            "Private",
            "10.0.0.0/33",
            "10.0.0.0/+8",
            "10.0.0.0/",
            "10/8",
            "::/129",
            "a/8",
            "10.0.0.0/8/8",
        ] {
            let error = text.parse::<Network>().expect_err(text);
            assert!(error.to_string().contains("is not a network"), "{error}");
        }
        for text in ["private", "loopback", "10.1.0.0/16", "fd00::/8"] {
            assert_eq!(text.parse::<Network>().map(|network| network.to_string()), Ok(text.to_owned()));
        }
    }
}
