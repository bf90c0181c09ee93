"""The demonstration: a multi-tenant workload whose promises are measured by what its bodies log."""
