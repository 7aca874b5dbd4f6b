import { MessagesSquare } from "lucide-react";
import { Blank } from "../parts/Blank.tsx";
import { href } from "../route.ts";

/** Where no thread is chosen. */
export function Welcome() {
  return (
    <>
      <h1 className="visually-hidden">Threadline</h1>
      <Blank icon={<MessagesSquare />} title="Choose a thread">
        <p>Or start a new one: the built-in demo agent answers without any set-up.</p>
        <a className="button primary" href={href({ name: "new" })}>
          New thread
        </a>
      </Blank>
    </>
  );
}
