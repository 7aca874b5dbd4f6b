// The types of events, as one thinks of them.

export const FAMILIES = {
  run: {
    label: "Runs and steps",
    types: ["RUN_STARTED", "RUN_FINISHED", "RUN_ERROR", "STEP_STARTED", "STEP_FINISHED"],
  },
  text: {
    label: "Text and messages",
    types: [
      "TEXT_MESSAGE_START",
      "TEXT_MESSAGE_CONTENT",
      "TEXT_MESSAGE_END",
      "TEXT_MESSAGE_CHUNK",
      "MESSAGES_SNAPSHOT",
    ],
  },
  tool: {
    label: "Tool calls",
    types: ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_CHUNK", "TOOL_CALL_RESULT"],
  },
  state: {
    label: "State and activities",
    types: ["STATE_SNAPSHOT", "STATE_DELTA", "ACTIVITY_SNAPSHOT", "ACTIVITY_DELTA"],
  },
  reasoning: {
    label: "Reasoning",
    types: [
      "REASONING_START",
      "REASONING_MESSAGE_START",
      "REASONING_MESSAGE_CONTENT",
      "REASONING_MESSAGE_END",
      "REASONING_MESSAGE_CHUNK",
      "REASONING_END",
      "REASONING_ENCRYPTED_VALUE",
      "THINKING_START",
      "THINKING_TEXT_MESSAGE_START",
      "THINKING_TEXT_MESSAGE_CONTENT",
      "THINKING_TEXT_MESSAGE_END",
      "THINKING_END",
    ],
  },
  custom: { label: "Custom and others", types: ["CUSTOM", "RAW"] },
} as const;

export type Family = keyof typeof FAMILIES;
export const FAMILY_NAMES = Object.keys(FAMILIES) as readonly Family[];

/** Stands for all types that have no line of their own. */
export const OTHER_TYPES = "other types";

const BY_TYPE = new Map<string, Family>(
  FAMILY_NAMES.flatMap((family) => FAMILIES[family].types.map((type) => [type, family] as const)),
);

export function familyOf(type: string): Family {
  return BY_TYPE.get(type) ?? "custom";
}

/** The types of a family that can be chosen. */
export function choicesOf(family: Family): readonly string[] {
  const { types } = FAMILIES[family];
  return family === "custom" ? [...types, OTHER_TYPES] : types;
}

/** What stands for a type among the choices. */
export function choiceOf(type: string): string {
  return BY_TYPE.has(type) ? type : OTHER_TYPES;
}
