//! Macros that declare settings and merge them from several sources.

/// Declares a group of settings. Each is a flag, an environment variable, which its row names, and a key of the file (in
/// kebab-case). Further properties of the flag are in parentheses. No setting is required.
macro_rules! flags {
    ($(#[$struct:meta])* pub struct $Flags:ident {
        $($(#[$field:meta])* pub $name:ident: $Type:ty = $variable:tt $(($($property:tt)*))?,)*
    }) => {
        $(#[$struct])*
        #[derive(Debug, Clone, Default, clap::Args, serde::Deserialize)]
        #[serde(rename_all = "kebab-case", default)]
        pub struct $Flags {
            $($(#[$field])* #[arg(long, env = $variable $(, $($property)*)?)] pub $name: $Type,)*
        }

        impl $crate::layered::LayeredSettings for $Flags {
            const NAMES: &[&str] = &[$(stringify!($name)),*];

            fn over(self, below: Self) -> Self {
                Self { $($name: $crate::layered::OptionalSetting::or(self.$name, below.$name),)* }
            }
        }
    };
}

/// Declares all groups of settings together.
macro_rules! concerns {
    ($(#[$struct:meta])* pub struct $Flags:ident { $(pub $name:ident: $Concern:ident,)* }) => {
        $(#[$struct])*
        #[derive(Debug, Clone, Default, clap::Args)]
        pub struct $Flags {
            $(#[doc = concat!("Settings of the concern `", stringify!($name), "`.")] #[command(flatten)] pub $name: $Concern,)*
        }

        impl $Flags {
            /// Returns whether a key of the file is a setting.
            fn has(key: &str) -> bool {
                [$($Concern::NAMES),*].into_iter().flatten().any(|name| name.replace('_', "-") == key)
            }

            /// Parses a settings file. Each group takes its own keys.
            fn read(text: &str) -> Result<Self, toml::de::Error> {
                Ok(Self { $($name: toml::from_str(text)?,)* })
            }

            fn over(self, below: Self) -> Self {
                Self { $($name: self.$name.over(below.$name),)* }
            }
        }
    };
}

pub(super) use {concerns, flags};

/// A group of settings.
pub(super) trait LayeredSettings {
    /// The names of its fields.
    const NAMES: &[&str];

    /// Returns these settings, with `below` filling in absent ones.
    fn over(self, below: Self) -> Self;
}

/// A setting that may be absent.
pub(super) trait OptionalSetting {
    fn or(self, below: Self) -> Self;
}

impl<T> OptionalSetting for Option<T> {
    fn or(self, below: Self) -> Self {
        Self::or(self, below)
    }
}

impl<T> OptionalSetting for Vec<T> {
    fn or(self, below: Self) -> Self {
        if self.is_empty() { below } else { self }
    }
}
