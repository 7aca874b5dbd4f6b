/** A unique id, also in pages over plain HTTP, where `crypto.randomUUID` is not available. */
export function newId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
