import { TriangleAlert } from "lucide-react";
import { Component, type ReactNode } from "react";
import { Blank } from "./Blank.tsx";
import { Button } from "./Button.tsx";
import { messageOf } from "./failure.ts";

/** Confines an error to its pane: the content was written by other programs, and may be malformed in unexpected ways. */
export class Boundary extends Component<
  { readonly what: string; readonly children: ReactNode },
  { readonly failure: string | undefined }
> {
  override state: { readonly failure: string | undefined } = { failure: undefined };

  static getDerivedStateFromError(error: unknown): { readonly failure: string } {
    return { failure: messageOf(error) };
  }

  override render(): ReactNode {
    const { failure } = this.state;
    if (failure === undefined) return this.props.children;
    return (
      <Blank icon={<TriangleAlert aria-hidden="true" />} title={`${this.props.what} cannot be shown`}>
        <p role="alert">{failure}</p>
        <Button onClick={() => this.setState({ failure: undefined })}>Try again</Button>
      </Blank>
    );
  }
}
