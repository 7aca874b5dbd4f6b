//! Items of messages, and messages of items.

use super::super::{Input, InputError, InputErrorKind, ItemId, items, read_input};
use super::*;

fn items_of(message: Value) -> Vec<Value> {
    items(&message.to_string()).iter().map(|item| serde_json::from_str(item).expect("JSON")).collect()
}

fn read(input: Value) -> Result<Input, InputError> {
    let mut made = 0;
    read_input(&input, || {
        made += 1;
        format!("new{made}")
    })
}

#[test]
fn messages_are_items() {
    let said = |role: &str, content: Value| json!({"type":"message","id":"msg_m","status":"completed","role":role,"content":content});
    for role in ["user", "system", "developer"] {
        let item = said(role, json!([{"type":"input_text","text":"hi"}]));
        assert_eq!(items_of(json!({"id":"m","role":role,"content":"hi"})), [item]);
    }
    let calls = json!([{"id":"c","type":"function","function":{"name":"f","arguments":""}},
        {"id":"d","type":"function","function":{"name":"g","arguments":"{\"x\":1}"}}]);
    let call = |id: &str, name: &str, arguments: &str| {
        json!({"type":"function_call","id":format!("fc_{id}"),"status":"completed","call_id":id,"name":name,
            "arguments":arguments})
    };
    let text = said("assistant", json!([{"type":"output_text","text":"a","annotations":[],"logprobs":[]}]));
    let both = [text, call("c", "f", "{}"), call("d", "g", "{\"x\":1}")];
    assert_eq!(items_of(json!({"id":"m","role":"assistant","content":"a","toolCalls":calls})), both);
    assert_eq!(items_of(json!({"id":"m","role":"assistant","content":"","toolCalls":calls})), both[1..]);
    assert_eq!(items_of(json!({"id":"m","role":"assistant"})), [Value::Null; 0]);
    assert_eq!(items_of(json!({"id":"m","role":"activity","activityType":"x","content":{}})), [Value::Null; 0]);
    let output = |output: Value| json!({"type":"function_call_output","id":"fco_m","status":"completed","call_id":"c","output":output});
    let result = |content: Value, error: Value| {
        items_of(json!({"id":"m","role":"tool","toolCallId":"c","content":content,"error":error}))
    };
    assert_eq!(result(json!("4"), Value::Null), [output(json!("4"))]);
    assert_eq!(result(json!(""), json!("no")), [output(json!("no"))]);
    assert_eq!(
        result(json!([{"type":"text","text":"4"}]), Value::Null),
        [output(json!([{"type":"input_text","text":"4"}]))]
    );
    let thought = json!({"type":"reasoning","id":"rs_m","status":"completed","summary":[],
        "content":[{"type":"reasoning_text","text":"hm"}]});
    assert_eq!(items_of(json!({"id":"m","role":"reasoning","content":"hm"})), [thought]);
    // Halves of characters, and content that no version of AG-UI has.
    let half = items(r#"{"id":"m","role":"user","content":"\ud83d"}"#);
    assert!(half[0].contains(r#""text":"\ufffd""#), "{half:?}");
    assert!(items(r#"{"id":"m","role":"user","content":7}"#).is_empty() && items("7").is_empty());
}

#[test]
fn media_are_parts_and_come_back() {
    let data = json!({"type":"data","value":"aGk=","mimeType":"image/png"});
    let parts = json!([
        {"type":"text","text":"look"},
        {"type":"image","source":data},
        {"type":"image","source":{"type":"url","value":"http://h/i.png"}},
        {"type":"image","source":{"type":"file","value":"file-1"}},
        {"type":"document","source":{"type":"url","value":"http://h/d.pdf"},"metadata":{"filename":"d.pdf"}},
        {"type":"document","source":{"type":"file","value":"file-2"}},
        {"type":"audio","source":{"type":"data","value":"aGk=","mimeType":"audio/mpeg"}},
    ]);
    let message = json!({"id":"m","role":"user","content":parts});
    let items = items_of(message.clone());
    assert_eq!(
        items[0]["content"],
        json!([
            {"type":"input_text","text":"look"},
            {"type":"input_image","detail":"auto","image_url":"data:image/png;base64,aGk="},
            {"type":"input_image","detail":"auto","image_url":"http://h/i.png"},
            {"type":"input_image","detail":"auto","file_id":"file-1"},
            {"type":"input_file","file_url":"http://h/d.pdf","filename":"d.pdf"},
            {"type":"input_file","file_id":"file-2"},
            {"type":"input_file","file_data":"data:audio/mpeg;base64,aGk="},
        ])
    );
    assert_eq!(read(items.into()).expect("an input").messages, [message]);
    let binary = json!({"id":"m","role":"user","content":[{"type":"binary","mimeType":"image/gif","data":"R0k="}]});
    assert_eq!(items_of(binary)[0]["content"][0]["image_url"], "data:image/gif;base64,R0k=");
    let sound =
        json!([{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"aGk=","format":"wav"}}]}]);
    let source = json!({"type":"data","value":"aGk=","mimeType":"audio/wav"});
    assert_eq!(read(sound).expect("an input").messages[0]["content"], json!([{"type":"audio","source":source}]));
}

#[test]
fn inputs_are_messages() {
    let user = json!({"id":"new1","role":"user","content":"hi"});
    assert_eq!(read(json!("hi")).expect("an input").messages, std::slice::from_ref(&user));
    assert_eq!(read(json!([{"role":"user","content":"hi"}])).expect("an input").messages, [user]);
    let history = json!([
        {"type":"message","role":"developer","content":[{"type":"input_text","text":"be "},{"type":"input_text","text":"brief"}]},
        {"type":"reasoning","id":"rs_m","summary":[]},
        {"type":"message","id":"msg_m","status":"completed","role":"assistant",
            "content":[{"type":"output_text","text":"a","annotations":[]},{"type":"refusal","refusal":"b"}]},
        {"type":"reasoning","id":"rs_n","summary":[]},
        {"type":"function_call","id":"fc_c","call_id":"c","name":"f","arguments":"{}"},
        {"type":"function_call","call_id":"d","name":"g","arguments":"1"},
        {"type":"function_call_output","call_id":"c","output":"4"},
        {"type":"function_call_output","id":"fco_o","call_id":"d","output":[{"type":"input_text","text":"5"}]},
        {"type":"function_call","call_id":"e","name":"h","arguments":""},
        {"type":"mcp_approval_request","id":"mcpr_i","name":"h","arguments":"","server_label":"threadline"},
        {"type":"mcp_approval_response","approval_request_id":"mcpr_i","approve":false,"reason":"no"},
        {"type":"mcp_call","id":"mcp_k","name":"calc","arguments":"2","server_label":"threadline","output":"4"},
        {"type":"item_reference","id":"msg_x"},
        {"id":"fc_y","type":null},
    ]);
    let call = |id: &str, name: &str, arguments: &str| json!({"id":id,"type":"function","function":{"name":name,"arguments":arguments}});
    assert_eq!(
        read(history).expect("an input"),
        Input {
            messages: vec![
                json!({"id":"new1","role":"developer","content":"be brief"}),
                json!({"id":"m","role":"assistant","content":"ab","toolCalls":[call("c", "f", "{}"), call("d", "g", "1")]}),
                json!({"id":"new2","role":"tool","toolCallId":"c","content":"4"}),
                json!({"id":"o","role":"tool","toolCallId":"d","content":"5"}),
                json!({"id":"new3","role":"assistant","toolCalls":[call("e", "h", "")]}),
                json!({"id":"new4","role":"assistant","toolCalls":[call("k", "calc", "2")]}),
                json!({"id":"new5","role":"tool","toolCallId":"k","content":"4"}),
            ],
            resume: vec![json!({"interruptId":"i","status":"resolved","payload":{"approved":false,"reason":"no"}})],
            references: vec!["msg_x".into(), "fc_y".into()],
        }
    );
}

#[test]
fn what_cannot_be_read_is_named() {
    let form = |at: &str, expected: &'static str| (at.to_owned(), InputErrorKind::Form(expected));
    for (input, (at, kind)) in [
        (json!({}), form("input", "a string or a list of items")),
        (json!([7]), form("input[0]", "an object")),
        (json!(["a"]), form("input[0]", "an object")),
        (json!([{"type":7}]), form("input[0].type", "a string")),
        (json!([{}]), form("input[0].id", "a string")),
        (json!([{"type":"computer_call"}]), ("input[0]".into(), InputErrorKind::UnknownItem("computer_call".into()))),
        (
            json!([{"role":"critic","content":""}]),
            ("input[0].role".into(), InputErrorKind::UnknownRole("critic".into())),
        ),
        (json!([{"role":"user"}]), form("input[0].content", "a string or a list of parts")),
        (json!([{"role":"user","content":[{"type":"input_text"}]}]), form("input[0].content[0].text", "a string")),
        (
            json!([{"role":"user","content":[{"type":"input_image"}]}]),
            form("input[0].content[0]", "an \"image_url\" or a \"file_id\""),
        ),
        (
            json!([{"role":"user","content":"a"}, {"role":"system","content":[{"type":"input_image"}]}]),
            ("input[1].content[0]".into(), InputErrorKind::UnknownPart { kind: "input_image".into(), role: "system" }),
        ),
        (json!([{"type":"function_call_output","output":""}]), form("input[0].call_id", "a string")),
        (
            json!([{"type":"function_call_output","call_id":"c"}]),
            form("input[0].output", "a string or a list of parts"),
        ),
        (
            json!([{"type":"mcp_approval_response","approval_request_id":"x","approve":true}]),
            ("input[0].approval_request_id".into(), InputErrorKind::UnknownApproval("x".into())),
        ),
        (
            json!([{"type":"mcp_approval_response","approval_request_id":"mcpr_i"}]),
            form("input[0].approve", "true or false"),
        ),
    ] {
        assert_eq!(read(input.clone()), Err(InputError { at, kind }), "{input}");
    }
}

#[test]
fn ids_lead_back() {
    for id in [
        ItemId::Message("a_b"),
        ItemId::Call("c"),
        ItemId::Hosted("c"),
        ItemId::Output("o"),
        ItemId::Reasoning("r"),
        ItemId::Approval("i"),
    ] {
        assert_eq!(ItemId::read(&id.to_string()), Some(id));
    }
    for other in ["", "msg", "msg_", "x_a", "resp_a"] {
        assert_eq!(ItemId::read(other), None);
    }
    let foreign =
        json!([{"type":"message","role":"user","id":"item-1","content":"a"},{"role":"user","id":"fc_1","content":"b"}]);
    let ids: Vec<Value> =
        read(foreign).expect("an input").messages.iter().map(|message| message["id"].clone()).collect();
    assert_eq!(ids, ["new1", "new2"]);
}
