import { Pencil } from "lucide-react";
import { useRef } from "react";
import type { AnyMessage } from "../untrusted.ts";
import { IconButton } from "../parts/Button.tsx";
import { Article } from "./Article.tsx";
import type { Branching } from "./branching.ts";
import { Delivery, isOnItsWay } from "./Delivery.tsx";
import { Parts } from "./Parts.tsx";
import { TextEditor } from "./TextEditor.tsx";

/** A message of a person, which is edited in place: the edit begins another branch. */
export function UserMessage(props: {
  readonly message: AnyMessage;
  readonly branching: Branching | undefined;
  readonly isEdited: boolean;
}) {
  const { message, branching, isEdited } = props;
  const { id, content } = message;
  const pencil = useRef<HTMLButtonElement>(null);
  if (isEdited && branching && typeof content === "string") {
    const leave = () => {
      branching.onEditing(null);
      // The field disappears; focus moves to the button that has opened it.
      requestAnimationFrame(() => pencil.current?.focus());
    };
    return (
      <article className="message from-user" aria-label="Message from You" data-message-id={id}>
        <TextEditor
          text={content}
          label="Edited message"
          confirm="Send"
          onSave={(text) => branching.edit(id, text)}
          onLeave={leave}
        />
      </article>
    );
  }
  const edit = branching && !isOnItsWay(message) && typeof content === "string" && (
    <IconButton ref={pencil} className="small" label="Edit" onClick={() => branching.onEditing(id)}>
      <Pencil />
    </IconButton>
  );
  return (
    <Article label="You" message={message} className="from-user" tools={edit}>
      <div className={isOnItsWay(message) ? "bubble on-its-way" : "bubble"}>
        <Parts message={message} isPlain />
      </div>
      <Delivery message={message} />
    </Article>
  );
}
