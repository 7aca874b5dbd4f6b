"use client";

import { createContext, createElement, type ReactElement, type ReactNode, useContext } from "react";
import type { Threadline } from "../client.js";
import { ConfigError } from "../errors.js";

const Context = createContext<Threadline | null>(null);

/** Provides a client to the hooks below it. */
export function ThreadlineProvider(props: {
  readonly client: Threadline;
  readonly children?: ReactNode;
}): ReactElement {
  return createElement(Context.Provider, { value: props.client }, props.children);
}

/** Returns the client of the nearest provider. */
export function useThreadline(): Threadline {
  const client = useContext(Context);
  if (client === null) throw new ConfigError("this component requires a <ThreadlineProvider client={…}> above it");
  return client;
}
