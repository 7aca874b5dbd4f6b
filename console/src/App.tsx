import { useEffect, useMemo, useRef, useState } from "react";
import { ThreadlineProvider } from "threadline/react";
import { NoticesProvider } from "./parts/notices.tsx";
import {
  type Credentials,
  checkUser,
  connect,
  dropCredentials,
  forgetCredentials,
  isRemembered,
  onForgotten,
  saveCredentials,
  savedCredentials,
} from "./session.ts";
import { SessionContext } from "./session-context.ts";
import { Shell } from "./Shell.tsx";
import { SignIn } from "./SignIn.tsx";
import { type Admission, useAdmission } from "./admission.ts";

/** The console: the threads for an admitted user, otherwise the form for a key or a token. */
export function App() {
  const [credentials, setCredentials] = useState(savedCredentials);
  const client = useMemo(() => connect(credentials), [credentials]);
  const shown = useRef(client);
  useEffect(() => {
    // The previous client, of other credentials.
    if (shown.current !== client) shown.current.close();
    shown.current = client;
  }, [client]);
  const [admission, ask] = useAdmission(client);
  const session = useMemo(() => {
    const use = (given: Credentials, remember: boolean) => {
      // Throws before anything is changed, if it cannot be sent.
      connect(given).close();
      checkUser(given.user);
      saveCredentials(given, { remember });
      setCredentials(given);
    };
    return {
      credentials,
      signIn: use,
      actAs: (user: string) => use({ ...credentials, user }, isRemembered()),
      signOut: () => {
        forgetCredentials();
        setCredentials({});
      },
    };
  }, [credentials]);
  useEffect(() => onForgotten(credentials, session.signOut), [credentials, session]);
  useEffect(() => {
    if (admission.state === "refused") dropCredentials();
  }, [admission]);
  return (
    <SessionContext.Provider value={session}>
      <ThreadlineProvider client={client}>
        <NoticesProvider>
          <Admitted admission={admission} onAgain={ask} />
        </NoticesProvider>
      </ThreadlineProvider>
    </SessionContext.Provider>
  );
}

function Admitted({ admission, onAgain }: { readonly admission: Admission; readonly onAgain: () => void }) {
  if (admission.state === "refused") return <SignIn refusal={admission.refusal} />;
  if (admission.state === "asking") return null;
  return <Shell failure={admission.state === "unknown" ? admission.failure : undefined} onAgain={onAgain} />;
}
