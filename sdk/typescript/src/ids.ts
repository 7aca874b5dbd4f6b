/** An id that nobody else makes. By hand: `crypto.randomUUID` is not there in pages that come over plain HTTP. */
export function newId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
