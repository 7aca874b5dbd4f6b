import { createContext, useContext } from "react";
import type { Message } from "threadline";
import type { ShownMessage } from "threadline/react";
import { Button } from "../parts/Button.tsx";
import { refusalOf } from "./refusal.ts";

/** What can be done about a message that was not sent. */
export interface DeliveryActions {
  readonly retry: (messageId: string) => void;
  readonly discard: (messageId: string) => void;
}

/** Absent where nothing can be sent. */
export const Deliveries = createContext<DeliveryActions | undefined>(undefined);

/** True if a message is not in the log. */
export function isOnItsWay(message: Message): boolean {
  return (message as ShownMessage).delivery !== undefined;
}

/** Shows that a message is not in the log yet: it is on its way, or has failed, with the reason. */
export function Delivery({ message }: { readonly message: Message }) {
  const actions = useContext(Deliveries);
  const { id, delivery, deliveryError } = message as ShownMessage;
  if (delivery === undefined) return null;
  if (delivery === "sending") return <p className="delivery">Sending…</p>;
  return (
    <div className="delivery failed" role="alert">
      <p>Not sent. {deliveryError && refusalOf(deliveryError)}</p>
      {actions && (
        <>
          <Button onClick={() => actions.retry(id)}>Send again</Button>
          <Button onClick={() => actions.discard(id)}>Discard</Button>
        </>
      )}
    </div>
  );
}
