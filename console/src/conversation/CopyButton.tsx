import { Check, Copy } from "lucide-react";
import { useEffect, useState } from "react";
import { IconButton } from "../parts/Button.tsx";
import { copyText } from "../parts/copy.ts";
import { useNotices } from "../parts/notices.tsx";

const SHOWN_MS = 1_500;

/** Copies a text, and shows that it has. */
export function CopyButton({ text, label }: { readonly text: string; readonly label: string }) {
  const { fail } = useNotices();
  const [isDone, setDone] = useState(false);
  useEffect(() => {
    if (!isDone) return;
    const timer = setTimeout(() => setDone(false), SHOWN_MS);
    return () => clearTimeout(timer);
  }, [isDone]);
  const copy = () => copyText(text).then(() => setDone(true), fail);
  return (
    <IconButton className="small" label={isDone ? "Copied" : label} onClick={copy}>
      {isDone ? <Check /> : <Copy />}
    </IconButton>
  );
}
