import { section } from "./row.ts";

/** Replicas that are pods. */
export const KUBERNETES = {
  ...section("issue: Replicas on Kubernetes and on Ray", {
    "kubernetes.same": "Apps in pods are called, stream, run async, are cancelled and print as everywhere.",
    "kubernetes.scale": "Replicas come and go as pods, one each unless set otherwise: none, three, none.",
    "kubernetes.no-lost-run": "A pod that dies costs only the calls it had; every accepted run ends.",
    "kubernetes.not-ready": "A machine that is not ready is not dead: its pods go on as long as they answer.",
    "kubernetes.drain":
      "A pod that the cluster asks to leave takes calls until another is ready; no call fails.",
    "kubernetes.access":
      "A kubeconfig with a token or certificates, or a pod's account, says how to reach the cluster; plugins are refused.",
    "kubernetes.walls":
      "A seat's pod has the restricted profile: no root, no escalation, no token, a read-only image.",
    "kubernetes.resources":
      "A pod's limits are the app's, its requests a part of them; GPUs choose machines that have the card.",
    "kubernetes.storage":
      "Projects keep their storage in a claim, each in a folder of its own, if the operator names one.",
    "kubernetes.network":
      "Nobody connects to a pod, and it connects only where `network` of its app allows it.",
    "kubernetes.no-secrets":
      "Nothing of an app is in its pod's spec; the order of a seat is in a secret of the pod's own.",
    "kubernetes.overrides":
      "Operators add to pods only what changes neither their walls nor what runs in them.",
    "kubernetes.watch":
      "Pods are watched, not polled: a cut watch resumes from its version, and 410 Gone leads to a new list.",
    "kubernetes.bounded": "Answers of the cluster's API are bounded in size and time, lists in their pages.",
    "kubernetes.outage":
      "While the API does not answer, what runs goes on; what happened meanwhile is noticed later.",
    "kubernetes.quota":
      "A used-up quota is a reason to wait, told in words; pods are made once there is room.",
    "kubernetes.reasons": "Why a pod does not start, and how it ended, is told in plain words.",
    "kubernetes.ends":
      "A pod that is killed, deleted or out of memory ends its seat, and its object is removed.",
    "kubernetes.sweep": "Pods of a service that died are removed; those of a living one never.",
    "kubernetes.nothing-left": "When everything has ended, no object of the seats is left in the cluster.",
    "kubernetes.role": "packaging/ grants exactly the permissions that the service uses.",
    "kubernetes.doctor": "doctor asks the cluster for each permission by itself.",
    "kubernetes.document": "The commands of docs/kubernetes.md lead from nothing to a call, as they stand.",
    "kubernetes.image":
      "The worker image is made by a Dockerfile, or without Docker by a script, with the same content.",
  }),
};
