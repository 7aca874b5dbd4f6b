//! Members that a response repeats.

use super::super::Misfit;
use super::*;
use crate::limits::MAX_ECHO_BYTES;

#[test]
fn an_echo_is_read_from_what_it_gave() {
    let request = "{\"model\":\"m\",\"input\":\"x\",\"tools\":[{\"type\":\"function\",\n\"name\":\"f\"}],\"top_p\":null,\
                   \"temperature\":0.10,\"instructions\":\"be \\\"brief\\\"\",\"top_logprobs\":2}";
    let echo = Echo::read(request).expect("an echo");
    let json = echo.to_json();
    assert_eq!(
        json,
        "{\"instructions\":\"be \\\"brief\\\"\",\"tools\":[{\"type\":\"function\", \"name\":\"f\"}],\"temperature\":0.10,\
         \"top_logprobs\":2}"
    );
    assert_eq!(Echo::read(&json), Ok(echo));
    assert_eq!(Echo::read("{}").map(|echo| echo.to_json()).as_deref(), Ok("{}"));
}

#[test]
fn a_member_of_another_form_is_refused() {
    for (member, value) in [
        ("instructions", "7"),
        ("metadata", "[]"),
        ("metadata", "{\"a\":1}"),
        ("tools", "{}"),
        ("tool_choice", "[]"),
        ("parallel_tool_calls", "\"true\""),
        ("temperature", "\"1\""),
        ("top_logprobs", "1.5"),
        ("max_output_tokens", "-1"),
        ("reasoning", "\"high\""),
        ("text", "\"json\""),
        ("user", "{}"),
    ] {
        let refused = Echo::read(&format!("{{\"{member}\":{value}}}"));
        assert!(matches!(refused, Err(Misfit::Form { member: named, .. }) if named == member), "{member}: {refused:?}");
    }
    let pairs: Vec<String> = (0..17).map(|number| format!("\"{number}\":\"\"")).collect();
    assert!(Echo::read(&format!("{{\"metadata\":{{{}}}}}", pairs.join(","))).is_err());
    assert!(Echo::read(&format!("{{\"metadata\":{{{}}}}}", pairs[..16].join(","))).is_ok());
    let large = format!("{{\"instructions\":\"{}\"}}", "x".repeat(MAX_ECHO_BYTES));
    assert_eq!(Echo::read(&large), Err(Misfit::TooLarge));
}
