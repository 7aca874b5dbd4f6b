import { createContext, useContext } from "react";
import type { ShownMessage } from "threadline/react";
import type { AnyMessage } from "../untrusted.ts";
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
export function isOnItsWay(message: AnyMessage): boolean {
  return (message as Partial<ShownMessage>).delivery !== undefined;
}

/** Shows that a message is not in the log yet: it is on its way, or has failed, with the reason. */
export function Delivery({ message }: { readonly message: AnyMessage }) {
  const actions = useContext(Deliveries);
  const { id, delivery, deliveryError } = message as ShownMessage & AnyMessage;
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
