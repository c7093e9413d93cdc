//! The hosts of a secret, as flags of `secrets set` or in a comment of a file of secrets.

use tollhouse_api::{SecretPlace, SecretVisibility};

const EXPECTED: &str = "expected `# --host HOST --in header|url|body` above it";

/// A place of a request where the host puts the value.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum Place {
    Header,
    Url,
    Body,
}

impl From<Place> for SecretPlace {
    fn from(place: Place) -> Self {
        match place {
            Place::Header => Self::Header,
            Place::Url => Self::Url,
            Place::Body => Self::Body,
        }
    }
}

/// Arguments for the hosts of a secret.
#[derive(clap::Args)]
pub(crate) struct HostArgs {
    /// Host that gets the value instead of the handler
    #[arg(long = "host", value_name = "HOST", conflicts_with = "auth")]
    hosts: Vec<String>,
    /// Part of a request that gets the value [default: header]
    #[arg(long = "in", value_name = "PLACE", requires = "hosts")]
    places: Vec<Place>,
}

/// The hosts that get a secret, and the places of a request where they get it. Default: none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SecretHosts {
    pub(crate) hosts: Vec<String>,
    pub(crate) places: Vec<SecretPlace>,
}

impl From<HostArgs> for SecretHosts {
    fn from(args: HostArgs) -> Self {
        Self { hosts: args.hosts, places: args.places.into_iter().map(SecretPlace::from).collect() }
    }
}

impl SecretHosts {
    /// Returns the visibility of the secret: `other` without hosts.
    pub(crate) fn visibility(&self, other: SecretVisibility) -> SecretVisibility {
        if self.hosts.is_empty() { other } else { SecretVisibility::Hosts }
    }

    /// Reads the comment above a line of a file: `# --host api.example.com --in url`. Lines count from 1. Another comment
    /// with one of these flags is an error, because without hosts the handler would get the value.
    ///
    /// # Errors
    ///
    /// The reason why the comment is not complete.
    pub(crate) fn from_comment_above(text: &str, line: u32) -> Result<Self, &'static str> {
        let mut hosts = Self::default();
        let above = usize::try_from(line).ok().and_then(|line| line.checked_sub(2));
        let comment = above.and_then(|above| text.lines().nth(above)).and_then(|row| row.trim_start().strip_prefix('#'));
        let has_flag = |comment: &&str| matches!(comment.split([' ', '\t', '=']).next(), Some("--host" | "--hosts" | "--in"));
        let Some(comment) = comment.map(str::trim).filter(has_flag) else { return Ok(hosts) };
        let mut words = comment.split_whitespace();
        while let Some(flag) = words.next() {
            match (flag, words.next()) {
                ("--host", Some(host)) => hosts.hosts.push(host.to_owned()),
                ("--in", Some("header")) => hosts.places.push(SecretPlace::Header),
                ("--in", Some("url")) => hosts.places.push(SecretPlace::Url),
                ("--in", Some("body")) => hosts.places.push(SecretPlace::Body),
                _ => return Err(EXPECTED),
            }
        }
        if hosts.hosts.is_empty() { Err(EXPECTED) } else { Ok(hosts) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comment_above_a_line_names_its_hosts() {
        let text = "# --host a.example.com --in url\nA=1\nB=2\n  #  --host b.example.com --host c.example.com\nC=3\n# of --host d\nD=4\n";
        let read = |line| SecretHosts::from_comment_above(text, line).unwrap();
        assert_eq!(read(2), SecretHosts { hosts: vec!["a.example.com".to_owned()], places: vec![SecretPlace::Url] });
        assert_eq!(read(5).hosts, ["b.example.com", "c.example.com"]);
        assert_eq!(read(5).visibility(SecretVisibility::Auth), SecretVisibility::Hosts);
        for line in [1, 3, 7, 99] {
            assert_eq!(read(line), SecretHosts::default(), "{line}");
            assert_eq!(read(line).visibility(SecretVisibility::Auth), SecretVisibility::Auth);
        }
        assert_eq!(SecretHosts::from_comment_above("# -- keys of others --\nA=1", 2), Ok(SecretHosts::default()));
        for comment in [
            "# --host a --in",
            "# --host a --in path",
            "# --host a b c",
            "# --host=a",
            "# --host",
            "# --hosts a",
            "#--in url",
            "# --in url --host=a",
        ] {
            assert!(SecretHosts::from_comment_above(&format!("{comment}\nA=1"), 2).is_err(), "{comment}");
        }
    }
}
