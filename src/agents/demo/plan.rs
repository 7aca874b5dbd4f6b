//! State of the demo: a small plan that grows from run to run.

use serde_json::{Value, json};
use threadline_core::{json::member, limits::DEMO_STATE_BYTES};

use super::super::reading::whole;

/// Steps of earlier runs that are kept.
const KEPT_STEPS: usize = 6;

/// State `{"plan": {"steps": [{"text", "done"}…], "progress": 0–100, "runs"}, …}` as the front end has received it,
/// updated with each event. Other members of the state stay unchanged.
pub(super) struct Plan {
    state: Value,
    /// Number of steps from earlier runs.
    earlier: usize,
    /// True if the state is so large that only the plan in it is read and written.
    is_large: bool,
}

impl Plan {
    /// Continues from a state, if it has this shape, and adds these steps.
    pub(super) fn go_on(state: &str, steps: &[&str]) -> Self {
        let is_large = state.len() > DEMO_STATE_BYTES && state.trim_ascii_start().starts_with('{');
        let read = |text: &str| match text.len() {
            0..=DEMO_STATE_BYTES => serde_json::from_str(&whole(text)).unwrap_or(Value::Null),
            _ => Value::Null,
        };
        let mut state =
            if is_large { json!({ "plan": member(state, "plan").map_or(Value::Null, read) }) } else { read(state) };
        if !state.is_object() {
            state = json!({});
        }
        let is_step = |step: &&Value| step["text"].is_string() && step["done"].is_boolean();
        let plan = state.get("plan").unwrap_or(&Value::Null);
        let mut all: Vec<Value> = plan["steps"].as_array().into_iter().flatten().filter(is_step).cloned().collect();
        all.drain(..all.len().saturating_sub(KEPT_STEPS));
        let earlier = all.len();
        all.extend(steps.iter().map(|text| json!({ "text": text, "done": false })));
        let runs = plan["runs"].as_u64().unwrap_or(0).saturating_add(1);
        state["plan"] = json!({ "steps": all, "progress": 0, "runs": runs });
        let mut plan = Self { state, earlier, is_large };
        plan.state["plan"]["progress"] = plan.progress().into();
        plan
    }

    /// STATE_SNAPSHOT event of the current state; of a large one, the STATE_DELTA that puts the plan into it.
    pub(super) fn snapshot(&self) -> Value {
        if self.is_large {
            let add = json!({ "op": "add", "path": "/plan", "value": self.state["plan"] });
            return json!({ "type": "STATE_DELTA", "delta": [add] });
        }
        json!({ "type": "STATE_SNAPSHOT", "snapshot": self.state })
    }

    /// Marks a step of this run as done. Returns the STATE_DELTA event.
    pub(super) fn done(&mut self, step: usize) -> Value {
        self.set_done(self.earlier + step)
    }

    /// Marks the step that an earlier run left open as done, or removes it. Returns the STATE_DELTA event, or `None` if
    /// no step is open.
    pub(super) fn close_open_step(&mut self, done: bool) -> Option<Value> {
        let at = self.steps().iter().position(|step| step["done"] == false)?;
        if done {
            return Some(self.set_done(at));
        }
        if let Some(steps) = self.state["plan"]["steps"].as_array_mut() {
            steps.remove(at);
        }
        Some(self.delta(json!({ "op": "remove", "path": format!("/plan/steps/{at}") })))
    }

    fn set_done(&mut self, at: usize) -> Value {
        if let Some(done) = self.state.pointer_mut(&format!("/plan/steps/{at}/done")) {
            *done = true.into();
        }
        self.delta(json!({ "op": "replace", "path": format!("/plan/steps/{at}/done"), "value": true }))
    }

    fn delta(&mut self, operation: Value) -> Value {
        let progress = self.progress();
        self.state["plan"]["progress"] = progress.into();
        let progress = json!({ "op": "replace", "path": "/plan/progress", "value": progress });
        json!({ "type": "STATE_DELTA", "delta": [operation, progress] })
    }

    fn steps(&self) -> &[Value] {
        self.state["plan"]["steps"].as_array().map_or(&[], Vec::as_slice)
    }

    fn progress(&self) -> usize {
        let done = self.steps().iter().filter(|step| step["done"] == true).count();
        (100 * done).checked_div(self.steps().len()).unwrap_or(100)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_continues_from_the_state_and_leaves_the_rest_of_it_alone() {
        let mut first = Plan::go_on(r#"{"theme":"dark\ud800","plan":7}"#, &["a", "b"]);
        first.done(0);
        let state = first.snapshot()["snapshot"].take();
        let steps = json!([{ "text": "a", "done": true }, { "text": "b", "done": false }]);
        assert_eq!(state, json!({ "theme": "dark\u{fffd}", "plan": { "steps": steps, "progress": 50, "runs": 1 } }));
        let mut second = Plan::go_on(&state.to_string(), &["c", "d"]);
        assert_eq!(
            second.done(1)["delta"],
            json!([
                { "op": "replace", "path": "/plan/steps/3/done", "value": true },
                { "op": "replace", "path": "/plan/progress", "value": 50 },
            ])
        );
        let given_up = second.close_open_step(false).expect("b is open");
        assert_eq!(given_up["delta"][0], json!({ "op": "remove", "path": "/plan/steps/1" }));
        assert_eq!(given_up["delta"][1]["value"], 66);
        assert!(second.close_open_step(true).is_some() && second.close_open_step(true).is_none());
        assert_eq!(second.snapshot()["snapshot"]["plan"]["runs"], 2);
    }

    #[test]
    fn of_a_large_state_only_the_plan_is_touched() {
        let pad = "x".repeat(DEMO_STATE_BYTES);
        let first = Plan::go_on(&json!({ "pad": pad }).to_string(), &["a"]).snapshot();
        assert_eq!((&first["type"], &first["delta"][0]["op"]), (&json!("STATE_DELTA"), &json!("add")));
        let plan = &first["delta"][0]["value"];
        let second = Plan::go_on(&json!({ "pad": pad, "plan": plan }).to_string(), &["b"]);
        assert_eq!((second.steps().len(), second.earlier), (2, 1));
        let anew = Plan::go_on(&json!([pad]).to_string(), &["c"]).snapshot();
        assert_eq!((&anew["type"], &anew["snapshot"]["plan"]["runs"]), (&json!("STATE_SNAPSHOT"), &json!(1)));
    }

    #[test]
    fn a_state_of_another_shape_is_started_anew_and_old_steps_are_forgotten() {
        for state in ["null", "[1]", "\"x\"", "1e999", r#"{"plan":{"steps":[1,{"text":1}],"runs":-1}}"#] {
            let plan = Plan::go_on(state, &["a"]).snapshot()["snapshot"]["plan"].take();
            let steps = json!([{ "text": "a", "done": false }]);
            assert_eq!(plan, json!({ "steps": steps, "progress": 0, "runs": 1 }), "{state}");
        }
        let many = json!({ "plan": { "steps": vec![json!({ "text": "x", "done": true }); 100] } });
        let plan = Plan::go_on(&many.to_string(), &["a"]);
        assert_eq!((plan.steps().len(), plan.earlier), (KEPT_STEPS + 1, KEPT_STEPS));
    }
}
