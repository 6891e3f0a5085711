//! `rhumb place --joint`: batch instances from a file, solved one by one and timed.

use crate::{
    exit::{CliError, Exit},
    output::{Output, Paint},
    show::{list, text},
};
use flate2::read::MultiGzDecoder;
use rhumb_placement::batch::{
    instance::{self, Instance},
    solve::{Budget, answer_json, solve},
};
use serde_json::Value;
use std::{
    fs::File,
    io::{self, Read},
    path::Path,
    time::Instant,
};

pub fn main(path: &Path, output: Output) -> Result<Exit, CliError> {
    let shown = path.display();
    let text = read(path)?;
    let instances = instance::read(&text).map_err(|e| CliError::Usage(format!("cannot read {shown}: {e}")))?;
    let mut answers = Vec::with_capacity(instances.len());
    for instance in &instances {
        answers.push(timed(instance).map_err(|e| CliError::Usage(format!("cannot solve {shown}: {e}")))?);
    }
    output.show(&Value::Array(answers), |o| {
        let answers = solved(&instances);
        answers.unwrap_or_else(|_| o.paint(Paint::Bad, "not solved"))
    })?;
    Ok(Exit::Done)
}
