"""Makes ready what Keystone makes at the first request: two that come at once would find it half made by the other.

The rules of policies are such: who finds a set without its rules is denied what they would allow.
"""

from keystone.common.rbac_enforcer import enforcer


def policies():
    # As within a request: about deprecated rules something is said once, and not of each.
    enforcer.RBACEnforcer.suppress_deprecation_warnings = True
    enforcer.RBACEnforcer()._enforcer.load_rules()
