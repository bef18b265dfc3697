//! Where a value comes from.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;

/// The layers; a later one wins over an earlier one, key by key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// Part of this program.
    BuiltIn,
    /// A file of the machine.
    System,
    /// The user's file.
    User,
    /// The one file that was named, read in the place of the system's, the user's and the project's.
    Named,
    /// The file of the project that the working directory is in.
    Project,
    /// An environment variable.
    Environment,
    /// A flag.
    Flag,
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BuiltIn => "built in",
            Self::System => "system",
            Self::User => "user",
            Self::Named => "named",
            Self::Project => "project",
            Self::Environment => "environment",
            Self::Flag => "flag",
        })
    }
}

/// What was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The program's own defaults.
    Defaults,
    /// A file that is part of the program, by its name in the source.
    Included(&'static str),
    /// A file.
    File(Layer, PathBuf),
    /// An environment variable, by its name.
    Variable(String),
    /// A flag, by its name.
    Flag(&'static str),
}

impl Source {
    /// The layer it is.
    pub fn layer(&self) -> Layer {
        match self {
            Self::Defaults | Self::Included(_) => Layer::BuiltIn,
            Self::File(layer, _) => *layer,
            Self::Variable(_) => Layer::Environment,
            Self::Flag(_) => Layer::Flag,
        }
    }

    /// Its name, where it has one.
    pub fn name(&self) -> Option<String> {
        match self {
            Self::Defaults => None,
            Self::Included(name) | Self::Flag(name) => Some((*name).to_owned()),
            Self::File(_, path) => Some(path.display().to_string()),
            Self::Variable(name) => Some(name.clone()),
        }
    }
}

/// A place in what was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// What was read.
    pub source: Arc<Source>,
    /// The line, from 1, of a file.
    pub line: Option<usize>,
}

impl Origin {
    /// The program's own defaults.
    pub fn defaults() -> Self {
        Self { source: Arc::new(Source::Defaults), line: None }
    }

    /// The layer it is in.
    pub fn layer(&self) -> Layer {
        self.source.layer()
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.source.name().unwrap_or_else(|| self.layer().to_string());
        match self.line {
            Some(line) => write!(f, "{name}:{line}"),
            None => f.write_str(&name),
        }
    }
}

impl Serialize for Origin {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;
        let mut fields = serializer.serialize_struct("Origin", 3)?;
        fields.serialize_field("layer", &self.layer())?;
        fields.serialize_field("name", &self.source.name())?;
        fields.serialize_field("line", &self.line)?;
        fields.end()
    }
}
