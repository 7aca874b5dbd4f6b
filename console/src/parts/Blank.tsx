import type { ReactNode } from "react";

/** In the place of what is not there (yet): empty, being loaded, or failed. */
export function Blank({
  icon,
  title,
  children,
}: {
  readonly icon?: ReactNode;
  readonly title?: string;
  readonly children?: ReactNode;
}) {
  return (
    <div className="blank">
      {icon}
      {title && <h2>{title}</h2>}
      {children}
    </div>
  );
}

/** What is being loaded; shown only if it takes long enough to be noticed is up to the caller. */
export function Loading({ what }: { readonly what: string }) {
  return (
    <Blank>
      <div className="spinner" role="status" aria-label={`Loading ${what}`} />
    </Blank>
  );
}
