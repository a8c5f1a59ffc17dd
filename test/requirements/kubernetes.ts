import { section } from "./row.ts";

/** Replicas that are pods. */
export const KUBERNETES = {
  ...section("docs/kubernetes.md: What a pod is", {
    "kubernetes.same":
      "Apps in pods are called, stream, run async, are cancelled and print as on one machine.",
    "kubernetes.servers":
      "An app that is a server of its own runs in a pod, on the port that its author wrote.",
    "kubernetes.scale":
      "Replicas come and go as pods with the load, one each unless set otherwise, on all machines.",
    "kubernetes.restart":
      "`millrace restart` and `secrets set --restart` replace an app's pods, and no call fails.",
    "kubernetes.deploys": "Twenty deploys of an app in pods, under load, fail no call.",
    "kubernetes.blows":
      "Whatever is killed under load, no run is lost or stuck, nothing is left, and 10 s later all is well.",
    "kubernetes.room":
      "Without room, image or quota, callers are told why; calls are answered soon after there is.",
    "kubernetes.cut-off":
      "A replica that comes back after its run was given to another is refused; each run ends once.",
    "kubernetes.start-time":
      "From zero takes at most twice as long as a bare pod, one more replica in a seat 1.5 times a local fork.",
    "kubernetes.no-lost-run": "A pod that dies costs only the calls it had; every accepted run ends.",
    "kubernetes.not-ready": "A machine that is not ready is not dead: its pods go on as long as they answer.",
    "kubernetes.drain":
      "A pod that the cluster asks to leave takes calls until another is ready; no call fails.",
    "kubernetes.access":
      "A kubeconfig with a token or certificates, or a pod's account, says how to reach the cluster; plugins are refused.",
    "kubernetes.walls":
      "A seat's pod has the restricted profile: no root, no escalation, no token, a read-only image.",
    "kubernetes.resources":
      "A pod's limits are the app's, its requests a part of them; GPUs choose machines that have the model by either label.",
    "kubernetes.storage":
      "Projects keep their storage in a claim, each in a folder of its own, if the operator names one.",
    "kubernetes.network":
      "No connection to a pod is allowed, and it connects only where `network` of its app allows it.",
    "kubernetes.no-secrets":
      "Of an app only its name is in its pod; the order of a seat is in a secret of the pod's own.",
    "kubernetes.overrides":
      "Operators add to pods only what changes neither their walls nor what runs in them.",
    "kubernetes.grace":
      "A pod has as long to end as its app's longest call may take, or as the operator allows at most.",
    "kubernetes.watch":
      "Pods are watched, not polled: a cut watch resumes from its version, and 410 Gone leads to a new list.",
    "kubernetes.bounded": "Answers of the cluster's API are bounded in size and time, lists in their pages.",
    "kubernetes.outage":
      "While the API does not answer, what runs goes on; what happened meanwhile is noticed later.",
    "kubernetes.quota":
      "A used-up quota is a reason to wait, told in words; pods are made once there is room.",
    "kubernetes.reasons": "Why a pod does not start, and how it ended, is told in plain words.",
    "kubernetes.last-words":
      "A pod that fails says why, in what its container printed last: in the build's log, the 503 and the app's log.",
    "kubernetes.names":
      "Pods are named and labelled by their project, app and version, and no two pods have the same name.",
    "kubernetes.shown": "An app's page says why a replica does not start, in the words of its cluster.",
    "kubernetes.ends":
      "A pod that is killed, deleted or out of memory ends its seat, and its object is removed.",
    "kubernetes.sweep": "Pods of a service that died are removed; those of a living one never.",
    "kubernetes.orphan":
      "Pods that no service takes over end as Succeeded, and go with the one object that owns them.",
    "kubernetes.adopted":
      "After kill -9 of the service under load the same pods answer, and every run ends once.",
    "kubernetes.nothing-left": "When everything has ended, no object of the seats is left in the cluster.",
    "kubernetes.role":
      "packaging/ grants exactly the permissions that the service uses, by manifest and by chart.",
    "kubernetes.doctor": "doctor asks the cluster for each permission by itself.",
    "kubernetes.image-checked":
      "A worker image whose Python lacks a module of the agent's is refused when it is made.",
    "kubernetes.doctor-pod":
      "doctor starts a pod of the worker image, and says what its Python lacks and which address it does not reach.",
    "helm.values":
      "Each value of the chart has a default, a schema and a row in docs/helm.md; others are refused.",
    "helm.renders":
      "Helm makes of the chart what a cluster takes, with any of its values; services.yaml is what it makes by default.",
    "helm.apart":
      "Apps can have a namespace of their own, and then the services of the chart have no rights in any other.",
    "helm.update": "Services in a cluster are replaced one by one, and no call fails.",
    "kubernetes.tools": "The worker image has a compiler, git and uv.",
    "kubernetes.image":
      "The worker image is made by a Dockerfile, or without Docker by a script, with the same content.",
  }),
};
