"use client";

import { createContext, createElement, type ReactElement, type ReactNode, useContext, useMemo } from "react";
import type { Threadline } from "../client.js";
import { ConfigError } from "../errors.js";
import type { Dehydrated } from "./seed.js";

/** Values of a provider. */
export interface Provided {
  readonly client: Threadline;
  readonly initial: Dehydrated | undefined;
}

const Context = createContext<Provided | null>(null);

/**
 * Provides a client to the hooks below it. `initial` has threads that the server has read with `dehydrate`: they are shown in
 * the first render, on the server and in the page, and followed from there.
 */
export function ThreadlineProvider(props: {
  readonly client: Threadline;
  readonly initial?: Dehydrated | undefined;
  readonly children?: ReactNode;
}): ReactElement {
  const { client, initial, children } = props;
  const value = useMemo(() => ({ client, initial }), [client, initial]);
  return createElement(Context.Provider, { value }, children);
}

/** Returns the client of the nearest provider. */
export function useThreadline(): Threadline {
  return useProvided().client;
}

export function useProvided(): Provided {
  const provided = useContext(Context);
  if (provided === null) throw new ConfigError("this component requires a <ThreadlineProvider client={…}> above it");
  return provided;
}
