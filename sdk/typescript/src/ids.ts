/**
 * A unique random id. Pages that are served over plain HTTP have no `crypto.randomUUID`, and React Native has no `crypto`. An id
 * is no secret, so `Math.random` is good enough there.
 */
export function newId(): string {
  const bytes = new Uint8Array(16);
  const { crypto } = globalThis as { readonly crypto?: Partial<Crypto> };
  if (crypto?.getRandomValues) crypto.getRandomValues(bytes);
  else bytes.forEach((_, at) => (bytes[at] = Math.random() * 256));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
