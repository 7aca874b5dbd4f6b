// What a person is asked by an interrupt, and what the agent gets. Schemas are hostile input. Pure.

import type { AnyInterrupt } from "../untrusted.ts";

export type FieldKind = "boolean" | "choice" | "number" | "text" | "json";

/** Something to be filled in. */
export interface Field {
  /** The member of the answer; empty: the field is the whole answer. */
  readonly name: string;
  readonly kind: FieldKind;
  readonly label: string;
  readonly help: string;
  readonly isRequired: boolean;
  readonly choices: readonly string[];
}

const MOST_FIELDS = 40;

/** The fields of an interrupt's `responseSchema`; one for any JSON where it says nothing that can be asked for. */
export function fieldsOf({ responseSchema }: AnyInterrupt): readonly Field[] {
  const schema = members(responseSchema);
  const properties = Object.entries(members(schema.properties)).slice(0, MOST_FIELDS);
  if (properties.length === 0) {
    const kind = responseSchema === undefined ? "json" : kindOf(schema);
    return [
      { name: "", kind, label: "Answer", help: word(schema.description), isRequired: true, choices: choicesOf(schema) },
    ];
  }
  const required = Array.isArray(schema.required) ? schema.required : [];
  return properties.map(([name, value]) => {
    const property = members(value);
    return {
      name,
      kind: kindOf(property),
      label: word(property.title) || name,
      help: word(property.description),
      isRequired: required.includes(name),
      choices: choicesOf(property),
    };
  });
}

/** What the agent is given. `values` has the texts of the fields by name. Throws if one is not what it has to be. */
export function payloadOf(fields: readonly Field[], values: ReadonlyMap<string, string>): unknown {
  const [only] = fields;
  if (fields.length === 1 && only?.name === "") return valueOf(only, values.get("") ?? "");
  const entries = fields.flatMap((field) => {
    const text = values.get(field.name) ?? "";
    return text === "" && !field.isRequired ? [] : [[field.name, valueOf(field, text)] as const];
  });
  return Object.fromEntries(entries);
}

function valueOf({ kind, label, choices }: Field, text: string): unknown {
  if (kind === "boolean") return text === "true";
  if (kind === "number") {
    const value = Number(text);
    if (text.trim() === "" || !Number.isFinite(value)) throw new Error(`“${label}” has to be a number.`);
    return value;
  }
  if (kind === "choice") return choices.includes(text) ? JSON.parse(text) : text;
  if (kind === "text") return text;
  // What begins like JSON is meant as such; anything else is a text.
  try {
    return JSON.parse(text);
  } catch {
    if (/^\s*[[{"]/.test(text)) throw new Error(`“${label}” is not valid JSON.`);
    return text;
  }
}

function kindOf(schema: Readonly<Record<string, unknown>>): FieldKind {
  if (choicesOf(schema).length > 0) return "choice";
  const types = [schema.type].flat();
  const type = types.find((each) => each !== "null");
  if (type === "boolean") return "boolean";
  if (type === "number" || type === "integer") return "number";
  return type === "string" ? "text" : "json";
}

/** As JSON, so that 1 and "1" are two. */
function choicesOf({ enum: given }: Readonly<Record<string, unknown>>): readonly string[] {
  return Array.isArray(given) ? given.slice(0, MOST_FIELDS).map((choice) => JSON.stringify(choice) ?? "null") : [];
}

function members(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {};
}

function word(value: unknown): string {
  return typeof value === "string" ? value : "";
}
