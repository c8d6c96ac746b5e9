//! The configuration of a node: its file, its layers, and the commands that show them.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// A folder with a configuration file.
struct Settings {
    folder: TempDir,
}

impl Settings {
    fn new(text: &str) -> Settings {
        let folder = tempfile::tempdir().expect("temporary folder");
        let settings = Settings { folder };
        fs::write(settings.file(), text).expect("write the file");
        settings
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("tallymesh.toml")
    }
}

/// Runs `tallymesh` with these arguments and variables.
fn run(arguments: &[&str], file: Option<&Path>, variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tallymesh"));
    command.args(arguments).envs(variables.iter().copied());
    if let Some(file) = file {
        command.arg("--config").arg(file);
    }
    command.output().expect("run the command")
}

fn lines(output: &Output) -> Vec<Value> {
    let text = String::from_utf8_lossy(&output.stdout);
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

#[test]
fn flags_go_before_the_environment_before_the_file_before_defaults() {
    let settings = Settings::new(
        "space = [\"file\"]\nlease = \"1m\"\ndemo = true\nhttp-open = true\nlog = \"debug\"\n",
    );
    let variables = [
        ("TALLYMESH_LEASE", "2m"),
        ("TALLYMESH_DEMO", "0"),
        ("TALLYMESH_KEY_WINDOW", "2h"),
        ("TALLYMESH_RESP", "127.0.0.1:0"),
        ("TALLYMESH_RESP_PASSWORD", "secret"),
    ];
    let arguments = [
        "config",
        "show",
        "--json",
        "--key-window",
        "3h",
        "--http-open=false",
    ];
    let output = run(&arguments, Some(&settings.file()), &variables);
    assert!(output.status.success(), "{output:?}");
    let rows = lines(&output);
    let row = |key: &str| {
        let row = rows.iter().find(|row| row["key"] == key);
        let row = row.unwrap_or_else(|| panic!("{key} is missing"));
        (
            row["value"].clone(),
            row["from"].as_str().unwrap_or("").to_owned(),
            row["line"].as_u64(),
        )
    };
    assert_eq!(row("key-window"), ("3h".into(), "flag".into(), None));
    assert_eq!(row("http-open"), (false.into(), "flag".into(), None));
    assert_eq!(row("lease"), ("2m".into(), "environment".into(), None));
    assert_eq!(row("demo"), (false.into(), "environment".into(), None));
    assert_eq!(row("space"), (vec!["file"].into(), "file".into(), Some(1)));
    assert_eq!(row("log"), ("debug".into(), "file".into(), Some(5)));
    assert_eq!(
        row("http"),
        ("127.0.0.1:4280".into(), "default".into(), None)
    );
    assert_eq!(row("http-rate"), ("off".into(), "default".into(), None));
    assert_eq!(row("resp-password").0, "(hidden)");
    assert!(!String::from_utf8_lossy(&output.stdout).contains("secret"));

    let text = run(&["config", "show"], Some(&settings.file()), &variables);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    let told = |part: &str| text.lines().any(|line| line.contains(part));
    assert!(
        told("lease = \"2m\"") && told("# environment, TALLYMESH_LEASE"),
        "{text}"
    );
    assert!(
        told("tallymesh.toml, line 1") && !text.contains("secret"),
        "{text}"
    );
}

#[test]
fn a_file_is_named_by_the_environment_too() {
    let settings = Settings::new("space = [\"here\"]\n");
    let file = settings.file();
    let named = [("TALLYMESH_CONFIG", file.to_str().expect("text"))];
    let output = run(&["config", "show"], None, &named);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("space = [\"here\"]"), "{text}");
}

#[test]
fn all_problems_are_told_at_once_and_where_they_are() {
    let settings = Settings::new("http = \"localhost\"\nlease = \"1ms\"\nlog = \"=x=\"\n");
    let file = settings.file();
    let mut arguments = vec!["config", "check"];
    arguments.push(file.to_str().expect("text"));
    let output = run(&arguments, None, &[("TALLYMESH_SPACES", "a b")]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    for part in [
        "tallymesh.toml, line 1: http: `localhost`",
        "tallymesh.toml, line 2: lease: `1ms`: it is from 1s to 30d",
        "tallymesh.toml, line 3: log",
        "TALLYMESH_SPACES: `a b`",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    arguments.push("--json");
    let told = lines(&run(&arguments, None, &[]));
    let first = &told[0];
    assert_eq!(
        (&first["code"], &first["key"], &first["line"]),
        (&"config_value".into(), &"http".into(), &1.into())
    );
    assert_eq!(told.len(), 3, "{told:?}");

    fs::write(&file, "htp = \"127.0.0.1:0\"\n").expect("write");
    let output = run(&["up"], Some(&file), &[]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(
        text.contains("line 1: htp: there is no such key; is `http` meant?"),
        "{text}"
    );

    fs::write(&file, "demo = true\n").expect("write");
    assert!(run(&["config", "check"], Some(&file), &[]).status.success());
    let missing = settings.folder.path().join("none.toml");
    let output = run(&["config", "check", "--json"], Some(&missing), &[]);
    assert_eq!(lines(&output)[0]["code"], "config_file");
}

#[test]
fn the_example_is_printed_and_valid() {
    let output = run(&["config", "example"], None, &[]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("#durability = \"always\""), "{text}");
    let settings = Settings::new(&text);
    assert!(
        run(&["config", "check"], Some(&settings.file()), &[])
            .status
            .success()
    );
}
