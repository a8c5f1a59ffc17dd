import { useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { tell } from "../api/http.ts";
import { Field } from "../parts/field.tsx";
import { Entrance } from "./entrance.tsx";
import { Notice } from "./notice.tsx";

/** Signs in a command line that shows a code. */
export function Device() {
  const { user_code: given = "" } = useSearch({ from: "/gate/device" });
  const [code, setCode] = useState(given);
  const [isDone, setDone] = useState(false);
  if (isDone) {
    return (
      <Notice title="The device is signed in">You can close this page and go back to your terminal.</Notice>
    );
  }
  return (
    <Entrance
      title="Sign in a device"
      intro="Continue only if your own terminal shows this code: the device will act on your behalf."
      action="Sign it in"
      onSubmit={async () => {
        await tell("/device/approve", { method: "POST", body: { user_code: code.trim() } });
        setDone(true);
      }}
    >
      <Field
        label="Code"
        required
        autoFocus
        autoComplete="off"
        value={code}
        onChange={({ target }) => setCode(target.value)}
        className="font-mono tracking-widest uppercase"
      />
    </Entrance>
  );
}
