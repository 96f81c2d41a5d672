//! What every example does with its command line.

use std::fmt::Display;

/// Why an example refuses `arguments`.
pub(crate) fn refusal<O, E: Display>(
    parse: impl Fn(Vec<String>) -> Result<O, E>,
    arguments: &[&str],
) -> String {
    let parsed = parse(
        arguments
            .iter()
            .map(|&argument| argument.to_owned())
            .collect(),
    );
    let error = parsed.err().expect("nonsense is refused");
    error.to_string()
}

/// Unknown flags, flags without their value, and values that are none, for flags which take a `size`.
pub(crate) fn assert_nonsense_is_refused<'t>(
    refusal: impl Fn(&[&str]) -> String,
    sizes: &[&str],
    twins: impl IntoIterator<Item = &'t str>,
) {
    let twins: Vec<_> = twins.into_iter().collect();
    assert!(refusal(&["stray"]).contains("\"stray\""));
    for flag in sizes {
        let misspelt = &flag[..flag.len() - 1];
        assert!(refusal(&[misspelt, "3"]).contains(&format!("{misspelt:?}")));
        assert!(refusal(&[flag]).contains("needs a value"));
        for size in [
            "0",
            "many",
            "-1",
            "1.5",
            "",
            "99999999999",
            "18446744073709551616",
        ] {
            let message = refusal(&[flag, size]);
            assert!(
                message.contains(flag) && message.contains(size),
                "{message}"
            );
        }
    }
    assert!(refusal(&["--seed", "x"]).contains("\"x\""));
    for twin in &twins {
        let message = refusal(&["--broken", &twin[..twin.len() - 1]]);
        assert!(twins.iter().all(|twin| message.contains(twin)), "{message}");
    }
}
