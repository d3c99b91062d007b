//! Passwords, which messages never show, and their sources.

use crate::error::SetupError;
use crate::url::{Endpoint, NodeUrl};
use lineside_util::key_file::read_owner_only;
use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Environment variable with the password of the node.
pub const PASSWORD_VARIABLE: &str = "LINESIDE_NODE_PASSWORD";
/// Maximum length of a cookie file, in bytes; Bitcoin Core writes 75.
const COOKIE_BYTES_MAX: u64 = 4096;

/// Text that neither `Debug` nor `Display` shows.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Returns a secret with this text.
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    /// Returns the text. Do not write it to a log, a status page or a command line.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Credentials for the node's RPC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// No credentials; a directory of block files needs none.
    None,
    /// User and password: `rpcauth` or `rpcuser` of Bitcoin Core, `rpcuser` of btcd.
    Password {
        /// The user.
        user: String,
        /// The password.
        password: Secret,
    },
    /// File that Bitcoin Core creates at each start, `.cookie` in its data directory. The client reads the file for
    /// each connection, and again when the node answers with HTTP 401.
    CookieFile(PathBuf),
}

/// Sources of credentials other than the URL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CredentialSources {
    /// Bitcoin Core's cookie file.
    pub cookie_file: Option<PathBuf>,
    /// File with the password in its first line, readable only by its owner.
    pub password_file: Option<PathBuf>,
    /// Password from the environment; [`CredentialSources::with_environment`] reads it from [`PASSWORD_VARIABLE`].
    pub password: Option<Secret>,
}

impl CredentialSources {
    /// Adds the password in the environment variable [`PASSWORD_VARIABLE`].
    pub fn with_environment(mut self) -> Self {
        self.password = std::env::var(PASSWORD_VARIABLE).ok().map(Secret::new);
        self
    }
}

impl Credentials {
    /// Chooses the credentials for the node at `url`. If the URL names a user, the password is taken from the URL, the
    /// password file or the environment, in this order. If the URL names no user, the cookie file is used.
    ///
    /// # Errors
    /// [`SetupError`] if the sources contradict each other, a user has no password, or a file cannot be read.
    pub fn choose(url: &NodeUrl, sources: &CredentialSources) -> Result<Credentials, SetupError> {
        let Some(Endpoint { user, password, .. }) = url.endpoint() else {
            return Ok(Credentials::None);
        };
        match (user, &sources.cookie_file) {
            (Some(user), Some(_)) => Err(SetupError::TwoCredentials { user: user.clone() }),
            (None, Some(path)) => Ok(Credentials::CookieFile(path.clone())),
            (None, None) if sources.password_file.is_some() => Err(SetupError::PasswordWithoutUser),
            (None, None) if matches!(url, NodeUrl::Bitcoind(_)) => Err(SetupError::NoCredentials),
            (None, None) => Err(SetupError::NoUser),
            (Some(user), None) => {
                let password = match (password, &sources.password_file, &sources.password) {
                    (Some(password), ..) => password.clone(),
                    (None, Some(path), _) => password_of(path)?,
                    (None, None, Some(password)) => password.clone(),
                    (None, None, None) => {
                        return Err(SetupError::NoPassword { user: user.clone() });
                    }
                };
                Ok(Credentials::Password {
                    user: user.clone(),
                    password,
                })
            }
        }
    }

    /// Returns `USER:PASSWORD`; `None` if there are no credentials.
    ///
    /// # Errors
    /// The operating system's error if the cookie file cannot be read; `InvalidData` if its content is not a cookie.
    pub(crate) fn pair(&self) -> io::Result<Option<Secret>> {
        match self {
            Credentials::None => Ok(None),
            Credentials::Password { user, password } => {
                Ok(Some(Secret(format!("{user}:{}", password.reveal()))))
            }
            Credentials::CookieFile(path) => cookie_of(path).map(Some),
        }
    }
}

fn password_of(path: &Path) -> Result<Secret, SetupError> {
    let text = read_owner_only(path)?;
    let first = text.lines().next().unwrap_or_default();
    if first.is_empty() {
        return Err(SetupError::EmptyPasswordFile { path: path.into() });
    }
    Ok(Secret::new(first))
}

fn cookie_of(path: &Path) -> io::Result<Secret> {
    let mut text = String::new();
    let mut file = std::fs::File::open(path)?.take(COOKIE_BYTES_MAX);
    file.read_to_string(&mut text)?;
    let cookie = text.trim_end();
    if !cookie.contains(':') || cookie.contains(char::is_control) {
        let why = "the file does not contain USER:PASSWORD";
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    Ok(Secret::new(cookie))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lineside_util::key_file::write_owner_only;

    #[test]
    fn no_message_shows_a_secret() {
        let secret = Secret::new("hunter2");
        let credentials = Credentials::Password {
            user: "alice".into(),
            password: secret.clone(),
        };
        let url: NodeUrl = "bitcoind://alice:hunter2@node:8332".parse().unwrap();
        for shown in [
            format!("{secret} {secret:?}"),
            format!("{credentials:?}"),
            format!("{url} {url:?}"),
        ] {
            assert!(!shown.contains("hunter2") && shown.contains("***"), "{shown}");
        }
        assert_eq!(secret.reveal(), "hunter2");
    }

    #[test]
    fn the_password_is_taken_from_the_url_then_the_file_then_the_environment() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("password");
        write_owner_only(&path, b"of file\nsecond line\n").unwrap();
        let all = CredentialSources {
            cookie_file: None,
            password_file: Some(path.clone()),
            password: Some(Secret::new("of environment")),
        };
        let chosen = |url: &str, sources: &CredentialSources| {
            let credentials = Credentials::choose(&url.parse().unwrap(), sources);
            credentials.map(|credentials| credentials.pair().unwrap().map(|pair| pair.0))
        };
        let pair = |text: &str| Some(text.to_owned());
        assert_eq!(chosen("btcd://u:of%20url@h:1", &all).unwrap(), pair("u:of url"));
        assert_eq!(chosen("btcd://u@h:1", &all).unwrap(), pair("u:of file"));
        let environment = CredentialSources {
            password_file: None,
            ..all.clone()
        };
        assert_eq!(
            chosen("btcd://u@h:1", &environment).unwrap(),
            pair("u:of environment")
        );
        let none = CredentialSources::default();
        assert_eq!(chosen("blocks-dir:blocks", &none).unwrap(), None);
        // A password without a user cannot be used.
        for sources in [&none, &environment] {
            let error = chosen("bitcoind://h:1", sources).unwrap_err().to_string();
            for way in ["--node-cookie", "--node-password", PASSWORD_VARIABLE] {
                assert!(error.contains(way), "{error}");
            }
            let error = chosen("btcd://h:1", sources).unwrap_err().to_string();
            assert!(
                error.contains("--node-password") && !error.contains("cookie"),
                "{error}"
            );
        }
        let error = chosen("btcd://u@h:1", &none).unwrap_err().to_string();
        assert!(error.contains(PASSWORD_VARIABLE), "{error}");
        assert!(matches!(
            chosen("btcd://h:1", &all),
            Err(SetupError::PasswordWithoutUser)
        ));

        let cookie = folder.path().join(".cookie");
        let sources = CredentialSources {
            cookie_file: Some(cookie.clone()),
            ..none
        };
        std::fs::write(&cookie, "__cookie__:00ff").unwrap();
        assert_eq!(
            chosen("bitcoind://h:1", &sources).unwrap(),
            pair("__cookie__:00ff")
        );
        assert!(matches!(
            chosen("bitcoind://u:p@h:1", &sources),
            Err(SetupError::TwoCredentials { .. })
        ));
        std::fs::write(&cookie, "nothing of the kind").unwrap();
        let kind = Credentials::CookieFile(cookie).pair().unwrap_err().kind();
        assert_eq!(kind, io::ErrorKind::InvalidData);
    }
}
