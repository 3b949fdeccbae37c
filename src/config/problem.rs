//! What is wrong with a configuration, and where it was written.

use std::fmt;

/// Where a value was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// In the file, at a line counted from 1; 0 when the line is not known.
    File {
        /// As it was named on the command line.
        name: String,
        /// Counted from 1.
        line: usize,
    },
    /// In a variable of the environment.
    Variable(String),
    /// By a command line flag.
    Flag(String),
    /// Nowhere: the default, or the lack of a value.
    Nowhere,
}

impl Origin {
    /// The order in which problems are told: the file's by line, then the environment's, then the
    /// flags', then what is missing.
    pub(super) fn rank(&self) -> (usize, usize) {
        match self {
            Self::File { line, .. } => (0, *line),
            Self::Variable(_) => (1, 0),
            Self::Flag(_) => (2, 0),
            Self::Nowhere => (3, 0),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { name, line: 0 } => f.write_str(name),
            Self::File { name, line } => write!(f, "{name}:{line}"),
            Self::Variable(name) | Self::Flag(name) => f.write_str(name),
            Self::Nowhere => f.write_str("configuration"),
        }
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where it was written.
    pub origin: Origin,
    /// The setting, as `section.key`; `None` where no setting is meant, as in a syntax error.
    pub key: Option<String>,
    /// The value that was given and what is allowed instead.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.key {
            Some(key) => write!(f, "{}: {key}: {}", self.origin, self.message),
            None => write!(f, "{}: {}", self.origin, self.message),
        }
    }
}

/// Everything that is wrong with a configuration; at least one problem.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    problems: Vec<Problem>,
}

impl ConfigError {
    /// `Ok(value)` when there are no problems.
    pub(super) fn unless_empty<T>(problems: Vec<Problem>, value: T) -> Result<T, Self> {
        if problems.is_empty() { Ok(value) } else { Err(Self { problems }) }
    }

    /// What is wrong: the file's problems by line, then the environment's, then the flags'.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }
}

impl From<Problem> for ConfigError {
    fn from(problem: Problem) -> Self {
        Self { problems: vec![problem] }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}
