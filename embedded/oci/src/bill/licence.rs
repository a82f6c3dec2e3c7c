//! Licences, under the names that SPDX has for them where it has one.

use spdx::{Expression, imprecise_license_id, license_id};

/// A licence, or a choice of them.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Licence {
    /// The name of one licence in the list of SPDX.
    Id(String),
    /// Names of that list, combined.
    Expression(String),
    /// As its package calls it.
    Named(String),
}

/// What SPDX has other names for than Debian.
const DEBIAN: [(&str, &str); 8] = [
    ("expat", "MIT"),
    ("mit/x11", "X11"),
    ("bsd-2-clause", "BSD-2-Clause"),
    ("bsd-3-clause", "BSD-3-Clause"),
    ("bsd-4-clause", "BSD-4-Clause"),
    ("zlib/libpng", "Zlib"),
    ("psf-2", "PSF-2.0"),
    ("python-2.0", "Python-2.0"),
];

/// The families in which a plus after the version means that version or a later one.
const GNU: [&str; 4] = ["gpl", "lgpl", "agpl", "gfdl"];

/// What SPDX has other names for than the classifiers of Python packages; those that stand for several are not here.
const CLASSIFIERS: [(&str, &str); 8] = [
    ("Apache Software License", "Apache-2.0"),
    ("MIT License", "MIT"),
    ("ISC License (ISCL)", "ISC"),
    ("Mozilla Public License 2.0 (MPL 2.0)", "MPL-2.0"),
    ("Python Software Foundation License", "PSF-2.0"),
    ("The Unlicense (Unlicense)", "Unlicense"),
    ("GNU Lesser General Public License v2 or later (LGPLv2+)", "LGPL-2.0-or-later"),
    ("GNU Lesser General Public License v3 or later (LGPLv3+)", "LGPL-3.0-or-later"),
];

impl Licence {
    /// An expression of SPDX, if it is one.
    pub(super) fn of_expression(text: &str) -> Option<Self> {
        let id = license_id(text).map(|id| Self::Id(id.name.to_owned()));
        id.or_else(|| Expression::parse(text).is_ok().then(|| Self::Expression(text.to_owned())))
    }

    /// What people write.
    pub(super) fn of_name(name: &str) -> Self {
        let imprecise = || imprecise_license_id(name).filter(|(_, length)| *length == name.len()).map(|(id, _)| id);
        license_id(name).or_else(imprecise).map_or_else(
            || Self::of_expression(name).unwrap_or_else(|| Self::Named(name.to_owned())),
            |id| Self::Id(id.name.to_owned()),
        )
    }

    /// The end of a classifier.
    pub(super) fn of_classifier(class: &str) -> Self {
        let known = CLASSIFIERS.iter().find(|(name, _)| *name == class);
        known.map_or_else(|| Self::Named(class.to_owned()), |(_, id)| Self::Id((*id).to_owned()))
    }

    /// What a copyright file of Debian says: short names, joined by `or` and `and`.
    pub(super) fn of_debian(text: &str) -> Self {
        for (word, operator) in [(" or ", " OR "), (" and ", " AND ")] {
            let parts: Vec<Option<String>> = text.split(word).map(debian_id).collect();
            if let Some(ids) = parts.into_iter().collect::<Option<Vec<_>>>() {
                return match ids.as_slice() {
                    [id] => Self::Id(id.clone()),
                    _ => Self::Expression(ids.join(operator)),
                };
            }
        }
        Self::Named(text.to_owned())
    }

    /// The licence in an expression of SPDX.
    pub fn expression(&self) -> String {
        match self {
            Self::Id(text) | Self::Expression(text) => text.clone(),
            Self::Named(name) => format!("LicenseRef-{}", reference(name)),
        }
    }
}

/// Several licences in one expression: all of them apply.
pub(super) fn all(licences: &[Licence]) -> Option<String> {
    let parts = licences.iter().map(|licence| match licence {
        Licence::Expression(text) if licences.len() > 1 => format!("({text})"),
        _ => licence.expression(),
    });
    Some(parts.collect::<Vec<_>>().join(" AND ")).filter(|text| !text.is_empty())
}

/// A name with nothing in it but what an expression may have.
fn reference(name: &str) -> String {
    let parts = name.split(|c: char| !c.is_ascii_alphanumeric() && c != '.').filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("-")
}

/// A short name of Debian in the spelling of SPDX, if it has one: `GPL-2+` is `GPL-2.0-or-later`.
fn debian_id(name: &str) -> Option<String> {
    let lower = name.trim().to_ascii_lowercase();
    if let Some((_, id)) = DEBIAN.iter().find(|(short, _)| *short == lower) {
        return Some((*id).to_owned());
    }
    if let Some((family, version)) = lower.rsplit_once('-').filter(|(family, _)| GNU.contains(family)) {
        let (version, suffix) = version.strip_suffix('+').map_or((version, "only"), |version| (version, "or-later"));
        let minor = if version.contains('.') { "" } else { ".0" };
        let id = format!("{}-{version}{minor}-{suffix}", family.to_ascii_uppercase());
        return license_id(&id).map(|id| id.name.to_owned());
    }
    match Licence::of_name(name.trim()) {
        Licence::Id(id) => Some(id),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debian_has_other_names_for_the_same_licences() {
        let cases = [
            ("GPL-2+", "GPL-2.0-or-later"),
            ("LGPL-2.1", "LGPL-2.1-only"),
            ("Expat", "MIT"),
            ("Apache-2.0", "Apache-2.0"),
            ("BSD-3-clause", "BSD-3-Clause"),
            ("GPL-1+ or Expat", "GPL-1.0-or-later OR MIT"),
            ("public-domain", "LicenseRef-public-domain"),
            ("GPL-2+ with OpenSSL exception", "LicenseRef-GPL-2-with-OpenSSL-exception"),
        ];
        for (debian, spdx) in cases {
            assert_eq!(Licence::of_debian(debian).expression(), spdx);
        }
    }

    #[test]
    fn choices_among_several_are_kept_together() {
        let several = [Licence::of_debian("GPL-1+ or Expat"), Licence::of_debian("ISC")];
        assert_eq!(all(&several).as_deref(), Some("(GPL-1.0-or-later OR MIT) AND ISC"));
        assert_eq!(all(&several[..1]).as_deref(), Some("GPL-1.0-or-later OR MIT"));
        assert_eq!(all(&[]), None);
    }
}
