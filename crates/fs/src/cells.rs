//! The blobs that a transaction on names touches: what each was, and what it will be.
//!
//! A blob may be two things at once: a name's own site, which says whom the name means, and the site of an inode, which may be
//! meant by other names alone by then. So what happens to names and to inodes is noted here first, and turned into changes of blobs when
//! all is known. A blob of which nothing remains is deleted.

use std::{collections::BTreeMap, ops::Range};

use tyr_client::{Attributes, ErrorKind, Keyspace, Stat, Transaction};

use crate::{
    errno::{Result, Stop, changed, damaged},
    inode::{DIRECTORY, Inode, LEAVING, Metadata, NAME, PARENT, decode_reference, encode_reference},
    namespace::no_name,
    site::Site,
};

/// Whom a name means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Meant {
    /// Nobody: there is no such name, but an inode lies in its site that has others.
    Nobody,
    /// The inode that lies in the name's own site.
    Here,
    /// One that lies elsewhere: a staple.
    Elsewhere(Inode),
}

impl Meant {
    pub fn decode(attributes: &Attributes) -> Result<Meant> {
        match attributes.value(NAME) {
            None => Ok(Meant::Here),
            Some(b"-") => Ok(Meant::Nobody),
            Some(staple) => decode_reference(staple).map(Meant::Elsewhere),
        }
    }

    fn encode(&self) -> Option<Vec<u8>> {
        match self {
            Meant::Nobody => Some(b"-".to_vec()),
            Meant::Here => None,
            Meant::Elsewhere(inode) => Some(encode_reference(inode)),
        }
    }
}

/// Whether a name whose own site has these attributes is one in this directory. It is not, if the directory was removed and another one made
/// in its place, in which the name is.
pub(crate) fn is_named_in(directory: &Inode, attributes: &Attributes) -> bool {
    attributes.value(DIRECTORY).is_none_or(|number| number == directory.number.to_le_bytes())
}

/// A blob before and after.
#[derive(Debug)]
pub(crate) struct Cell {
    existed: bool,
    meant_before: Meant,
    meant: Meant,
    /// The number of the directory that the name is in.
    directory_before: Option<Vec<u8>>,
    directory: Option<Vec<u8>>,
    held_before: Option<Metadata>,
    attributes_before: Attributes,
    holds: Holds,
    attributes: BTreeMap<String, Option<Vec<u8>>>,
}

/// What lies in a blob afterwards.
#[derive(Debug)]
enum Holds {
    /// What lay there before, if anything.
    Same,
    /// Nothing.
    Nothing,
    /// A new inode, with this content.
    New(Vec<u8>),
    /// One that lay elsewhere, with its content in these pieces.
    Moved(Site, Vec<Piece>),
}

/// A piece of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Data(Range<u64>),
    Hole(Range<u64>),
}

impl Cell {
    fn absent() -> Self {
        Cell {
            existed: false,
            meant_before: Meant::Nobody,
            meant: Meant::Nobody,
            directory_before: None,
            directory: None,
            held_before: None,
            attributes_before: Attributes::default(),
            holds: Holds::Same,
            attributes: BTreeMap::new(),
        }
    }

    fn decode(site: &Site, stat: &Stat) -> Result<Self> {
        let held = Metadata::decode(site, &stat.attributes, stat.size)?;
        let meant = Meant::decode(&stat.attributes)?;
        if held.is_none() && !matches!(meant, Meant::Elsewhere(_)) {
            return Err(damaged("a blob without inode and staple"));
        }
        let directory = stat.attributes.value(DIRECTORY).map(<[u8]>::to_vec);
        Ok(Cell {
            existed: true,
            meant_before: meant.clone(),
            meant,
            directory_before: directory.clone(),
            directory,
            held_before: held,
            attributes_before: stat.attributes.clone(),
            ..Cell::absent()
        })
    }

    /// The inode that lies here, as it was before.
    pub fn held(&self) -> Option<&Metadata> {
        self.held_before.as_ref()
    }

    /// The inode that the name means, as it was before.
    pub fn named(&self) -> Option<&Inode> {
        match &self.meant_before {
            Meant::Nobody => None,
            Meant::Here => self.held_before.as_ref().map(|metadata| &metadata.inode),
            Meant::Elsewhere(inode) => Some(inode),
        }
    }

    /// Has an attribute of the inode that lies here say something else.
    pub fn set(&mut self, attribute: &str, value: Option<Vec<u8>>) {
        self.attributes.insert(attribute.to_owned(), value);
    }

    /// Has the inode that lies here be no more.
    pub fn drop_inode(&mut self) {
        self.holds = Holds::Nothing;
        self.attributes.clear();
    }

    async fn write(
        self,
        transaction: &mut Transaction,
        keyspace: &Keyspace,
        site: &Site,
    ) -> Result<(), Stop> {
        let has_inode = match &self.holds {
            Holds::Same => self.held_before.is_some(),
            Holds::Nothing => false,
            Holds::New(_) | Holds::Moved(..) => true,
        };
        let remains = has_inode || matches!(self.meant, Meant::Elsewhere(_));
        let lost_inode = self.held_before.is_some() && !has_inode;
        if self.existed && (!remains || lost_inode) {
            transaction.delete(keyspace, site).await?;
        }
        if !remains {
            return Ok(());
        }
        let is_new = !self.existed || lost_inode;
        if is_new {
            transaction.create(keyspace, site).await?;
        }
        if let Holds::New(content) = &self.holds
            && !content.is_empty()
        {
            transaction.write(keyspace, site, 0, content).await?;
        }
        let was = if is_new { None } else { self.meant_before.encode() };
        let is = self.meant.encode();
        if was != is {
            transaction.set_attribute(keyspace, site, NAME, is.as_deref()).await?;
        }
        let was = if is_new { None } else { self.directory_before };
        if was != self.directory {
            transaction.set_attribute(keyspace, site, DIRECTORY, self.directory.as_deref()).await?;
        }
        for (name, value) in &self.attributes {
            transaction.set_attribute(keyspace, site, name, value.as_deref()).await?;
        }
        Ok(())
    }
}

/// All blobs that a transaction on names touches.
#[derive(Debug, Default)]
pub(crate) struct Cells(BTreeMap<Site, Cell>);

impl Cells {
    /// The blob at a site, read if it was not yet.
    pub async fn load(
        &mut self,
        transaction: &mut Transaction,
        keyspace: &Keyspace,
        site: &Site,
    ) -> Result<&mut Cell, Stop> {
        if !self.0.contains_key(site) {
            let cell = match transaction.stat(keyspace, site).await {
                Ok(stat) => Cell::decode(site, &stat)?,
                Err(error) if error.kind() == ErrorKind::NotFound => Cell::absent(),
                Err(error) => return Err(error.into()),
            };
            self.0.insert(site.clone(), cell);
        }
        Ok(self.0.get_mut(site).expect("it was there or has just been put there"))
    }

    /// The own site of a name in a directory, and what the name means. Refuses if it is one in a directory that has taken the place of this
    /// one, which was removed.
    pub async fn load_name(
        &mut self,
        transaction: &mut Transaction,
        keyspace: &Keyspace,
        directory: &Inode,
        name: &[u8],
    ) -> Result<(Site, Option<Inode>), Stop> {
        let own = directory.site.of(name);
        let cell = self.load(transaction, keyspace, &own).await?;
        let number = directory.number.to_le_bytes();
        match cell.named() {
            Some(_) if cell.directory_before.as_ref().is_some_and(|other| *other != number) => {
                Err(no_name().into())
            }
            named => Ok((own, named.cloned())),
        }
    }

    /// Has a name in a directory, whose own site was loaded, mean an inode, or nobody.
    pub fn name(&mut self, own: &Site, directory: &Inode, inode: Option<&Inode>) {
        let cell = self.0.entry(own.clone()).or_insert_with(Cell::absent);
        cell.directory = inode.map(|_| directory.number.to_le_bytes().to_vec());
        cell.meant = match inode {
            None => Meant::Nobody,
            Some(inode) if inode.site == *own => Meant::Here,
            Some(inode) => Meant::Elsewhere(inode.clone()),
        };
    }

    /// Has a new inode lie in its site, where none lies.
    pub fn add_inode(&mut self, metadata: &Metadata, parent: Option<&Inode>, content: Vec<u8>) {
        let cell = self.0.entry(metadata.inode.site.clone()).or_insert_with(Cell::absent);
        cell.holds = Holds::New(content);
        cell.attributes = metadata.encode();
        if let Some(parent) = parent {
            cell.set(PARENT, Some(encode_reference(parent)));
        }
    }

    /// Has the inode that lies at a site lie at another one, where none lies, with everything that belongs to it. Both were loaded.
    pub fn move_inode(&mut self, from: &Site, to: &Site, pieces: Vec<Piece>) {
        let source = self.0.entry(from.clone()).or_insert_with(Cell::absent);
        // What is said of the name whose own site this is stays, and a mark has led to this.
        let goes = |name: &str| ![NAME, DIRECTORY, LEAVING].contains(&name);
        let attributes = source.attributes_before.iter().filter(|(name, _)| goes(name));
        let attributes = attributes.map(|(name, value)| (name.to_owned(), Some(value.to_vec()))).collect();
        source.drop_inode();
        let target = self.0.entry(to.clone()).or_insert_with(Cell::absent);
        (target.holds, target.attributes) = (Holds::Moved(from.clone(), pieces), attributes);
    }

    /// Turns it all into changes of blobs.
    pub async fn write(self, transaction: &mut Transaction, keyspace: &Keyspace) -> Result<(), Stop> {
        // Before what is moved is deleted.
        for (site, cell) in &self.0 {
            if let Holds::Moved(from, pieces) = &cell.holds {
                move_content(transaction, keyspace, from, site, pieces).await?;
            }
        }
        for (site, cell) in self.0 {
            cell.write(transaction, keyspace, &site).await?;
        }
        Ok(())
    }
}

/// Copies the content of a blob to another one, which is there and empty. All of it counts as read; a hole that is none any more is a conflict.
async fn move_content(
    transaction: &mut Transaction,
    keyspace: &Keyspace,
    from: &Site,
    to: &Site,
    pieces: &[Piece],
) -> Result<(), Stop> {
    for piece in pieces {
        if let Piece::Hole(range) = piece
            && transaction.read(keyspace, from, range.clone()).await?.iter().any(|byte| *byte != 0)
        {
            return Err(changed());
        }
    }
    for piece in pieces {
        match piece {
            Piece::Data(range) => {
                let copied = transaction.copy((keyspace, from), range.clone(), (keyspace, to), range.start);
                if copied.await? < range.end - range.start {
                    return Err(changed());
                }
            }
            // What lies between data is one anyway.
            Piece::Hole(_) => {}
        }
    }
    if let Some(Piece::Hole(range)) = pieces.last() {
        transaction.truncate(keyspace, to, range.end).await?;
    }
    Ok(())
}
