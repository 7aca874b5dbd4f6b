/** The sign of Threadline. */
export function Logo({ size = 22 }: { readonly size?: number }) {
  return <img src="favicon.svg" width={size} height={size} alt="" />;
}
