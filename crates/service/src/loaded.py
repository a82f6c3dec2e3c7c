

# The pod was deleted while the application was being loaded. uWSGI forgets a signal to end that comes meanwhile, and would serve until
# Kubernetes kills the pod: for an application that takes uploads, that is an hour later.
if os.path.exists("/run/draining"):
    os._exit(0)
