import { MessageCircleQuestionMark } from "lucide-react";
import { type FormEvent, useState } from "react";
import type { AnyInterrupt } from "../untrusted.ts";
import type { InterruptAnswer } from "threadline/react";
import { Button } from "../parts/Button.tsx";
import { type Field, fieldsOf, payloadOf } from "./answers.ts";
import { refusalOf } from "./refusal.ts";

/** The agent's interrupts. All of them are answered together, as AG-UI requires; a user with read access only sees them. */
export function Interrupts(props: {
  readonly interrupts: readonly AnyInterrupt[];
  readonly onAnswer: ((answers: readonly InterruptAnswer[]) => Promise<unknown>) | undefined;
}) {
  const { interrupts, onAnswer } = props;
  const [isBusy, setBusy] = useState(false);
  const [failure, setFailure] = useState<string | null>(null);
  const all = interrupts.map((interrupt, at) => ({ interrupt, prefix: `${at}.`, fields: fieldsOf(interrupt) }));
  const [first] = all;
  const single = all.length === 1 && first?.fields.length === 1 ? first.fields[0] : undefined;
  const isOff = isBusy || !onAnswer;
  const isYesOrNo = single?.kind === "boolean";

  const give = async (answers: () => readonly InterruptAnswer[]) => {
    setBusy(true);
    setFailure(null);
    try {
      await onAnswer?.(answers());
    } catch (error) {
      setFailure(refusalOf(error));
    }
    setBusy(false);
  };
  const cancel = () =>
    give(() => interrupts.map((interrupt) => ({ interruptId: idOf(interrupt), status: "cancelled" })));
  const resolve = (form: FormData) =>
    give(() =>
      all.map(({ interrupt, prefix, fields }) => {
        const values = new Map(fields.map(({ name }) => [name, String(form.get(prefix + name) ?? "")]));
        return { interruptId: idOf(interrupt), status: "resolved", payload: payloadOf(fields, values) };
      }),
    );
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    // The button that was pressed is an answer, too.
    const { submitter } = event.nativeEvent as SubmitEvent;
    void resolve(new FormData(event.currentTarget, submitter));
  };
  return (
    <form className="interrupts" aria-label="The agent asks" onSubmit={submit}>
      {all.map(({ interrupt, prefix, fields }) => (
        <fieldset key={prefix} disabled={isOff}>
          <legend>
            <MessageCircleQuestionMark aria-hidden="true" />
            <span>{questionOf(interrupt)}</span>
          </legend>
          {isYesOrNo
            ? single.help && <p>{single.help}</p>
            : fields.map((field) => <Ask key={field.name} name={prefix + field.name} field={field} />)}
        </fieldset>
      ))}
      {failure && <p role="alert">{failure}</p>}
      <div className="actions">
        {isYesOrNo ? (
          <>
            <Button type="submit" tone="primary" name={`0.${single.name}`} value="true" disabled={isOff}>
              Yes
            </Button>
            <Button type="submit" name={`0.${single.name}`} value="false" disabled={isOff}>
              No
            </Button>
          </>
        ) : (
          <Button type="submit" tone="primary" disabled={isOff}>
            Answer
          </Button>
        )}
        <Button onClick={() => void cancel()} disabled={isOff}>
          Cancel
        </Button>
      </div>
    </form>
  );
}

/** Agents write them: it may be no text. */
function idOf({ id }: AnyInterrupt): string {
  return typeof id === "string" ? id : "";
}

function questionOf({ message, reason }: AnyInterrupt): string {
  if (typeof message === "string" && message) return message;
  return typeof reason === "string" && reason ? reason : "The agent waits for an answer";
}

function Ask({ name, field }: { readonly name: string; readonly field: Field }) {
  return (
    <label className="field">
      <span>{field.label}</span>
      <Control name={name} field={field} />
      {field.help && <small>{field.help}</small>}
    </label>
  );
}

function Control({ name, field }: { readonly name: string; readonly field: Field }) {
  const { kind, choices, isRequired } = field;
  if (kind === "boolean" || kind === "choice") {
    const options = kind === "boolean" ? ["true", "false"] : choices;
    return (
      <select className="input" name={name} required={isRequired} defaultValue="">
        <option value="">Choose…</option>
        {options.map((option) => (
          <option key={option} value={option}>
            {kind === "boolean" ? { true: "Yes", false: "No" }[option] : option.replace(/^"(.*)"$/, "$1")}
          </option>
        ))}
      </select>
    );
  }
  if (kind === "json") return <textarea className="input mono" name={name} required={isRequired} rows={2} />;
  const type = kind === "number" ? "number" : "text";
  return <input className="input" type={type} step="any" name={name} required={isRequired} autoComplete="off" />;
}
