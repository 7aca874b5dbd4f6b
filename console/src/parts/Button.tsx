import type { ComponentProps, ReactNode } from "react";

/** A button with a text. */
export function Button({ tone, ...props }: ComponentProps<"button"> & { tone?: "primary" | "danger" | undefined }) {
  return <button type="button" {...props} className={["button", tone, props.className].filter(Boolean).join(" ")} />;
}

/** A button that is a picture; its label is shown by a tooltip, and read out. */
export function IconButton({
  label,
  children,
  ...props
}: ComponentProps<"button"> & { label: string; children: ReactNode }) {
  const className = ["icon-button", props.className].filter(Boolean).join(" ");
  return (
    <button type="button" aria-label={label} title={label} {...props} className={className}>
      {children}
    </button>
  );
}
